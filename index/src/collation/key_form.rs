//! The key form of a value: sort keys in place of texts, and how a sort key becomes a text.
//!
//! A sort key is bytes, and a text is UTF-8. So a key is written seven bits a character, from the highest bit on: the order
//! of the bytes stays, different keys stay different, and a key needs an eighth more room. Format of entries: see
//! `docs/format.md`; it does not change within a [version of the rules](super::version).

use bson::raw::CStr;
use bson::{RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use crate::order::{TypeClass, type_class};

/// The source of the sort key of a string.
pub(super) trait SortKeys {
    /// The text that represents `text` where bytes are sorted.
    fn key_text(&self, text: &str) -> String;
}

/// A value with sort keys in place of texts.
#[derive(Clone, Debug)]
pub enum KeyForm<'a> {
    /// The value itself, which has no text.
    Same(RawBsonRef<'a>),
    /// The result.
    Made(RawBson),
}

impl KeyForm<'_> {
    /// The value to encode and to compare.
    #[inline]
    pub fn value(&self) -> RawBsonRef<'_> {
        match self {
            Self::Same(value) => *value,
            Self::Made(value) => value.as_raw_bson_ref(),
        }
    }

    /// The value by itself.
    pub fn into_owned(self) -> RawBson {
        match self {
            Self::Same(value) => value.into(),
            Self::Made(value) => value,
        }
    }
}

/// Whether a value is a text or may have one inside, so that a collation may change how it compares.
pub fn has_text(value: RawBsonRef<'_>) -> bool {
    // A list in place of a recursion: no nesting overflows the stack.
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        if type_class(value) == TypeClass::String {
            return true;
        }
        if let RawBsonRef::Document(inner) = value {
            pending.extend(members(inner));
        } else if let RawBsonRef::Array(inner) = value {
            pending.extend(inner.into_iter().map_while(Result::ok));
        } else if let RawBsonRef::JavaScriptCodeWithScope(code) = value {
            pending.extend(members(code.scope));
        }
    }
    false
}

/// The bytes of a sort key, of the text that represents it.
///
/// ```
/// use bson::rawdoc;
/// use cairndb_index::collation::{Collation, key_bytes};
///
/// # #[cfg(feature = "collation")] {
/// let english = Collation::parse(&rawdoc! { "locale": "en" })?;
/// assert_eq!(key_bytes(&english.key_text("z")), [0x5d, 1, 5, 1, 5]);
/// # }
/// # Ok::<(), cairndb_index::collation::error::Error>(())
/// ```
pub fn key_bytes(text: &str) -> Vec<u8> {
    let (mut bytes, mut waiting, mut bits) = (Vec::with_capacity(text.len()), 0_u32, 0);
    for letter in text.chars() {
        waiting = (waiting << 7) | (u32::from(letter) & 0x7f);
        bits += 7;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from((waiting >> bits) & 0xff).unwrap_or_default());
        }
    }
    bytes
}

/// A sort key as a text that sorts as its bytes do.
#[cfg_attr(not(feature = "collation"), expect(dead_code, reason = "there are no sort keys"))]
pub(super) fn pack(key: &[u8]) -> String {
    let mut text = String::with_capacity(key.len() + key.len() / 7 + 1);
    let (mut waiting, mut bits) = (0_u32, 0);
    let mut push = |seven: u32| text.push(char::from(u8::try_from(seven & 0x7f).unwrap_or_default()));
    for byte in key {
        waiting = (waiting << 8) | u32::from(*byte);
        bits += 8;
        // Seven bits are always ready after a byte, and sometimes fourteen.
        while bits >= 7 {
            bits -= 7;
            push(waiting >> bits);
        }
    }
    // Filled with zeros: a key that goes on there is not lower, and it is longer.
    if bits > 0 {
        push(waiting << (7 - bits));
    }
    text
}

/// The key form of a value by the rules of a language.
pub(super) fn of<'a>(value: RawBsonRef<'a>, rules: &impl SortKeys) -> KeyForm<'a> {
    if let RawBsonRef::String(text) = value {
        return KeyForm::Made(RawBson::String(rules.key_text(text)));
    }
    if let RawBsonRef::Symbol(text) = value {
        return KeyForm::Made(RawBson::Symbol(rules.key_text(text)));
    }
    if has_text(value) { KeyForm::Made(rebuilt(value, rules)) } else { KeyForm::Same(value) }
}

/// An object, an array or a scope whose values are being replaced.
struct Open<'a> {
    source: Source<'a>,
    built: Built,
    /// The name that it has in the object around it.
    name: &'a CStr,
    /// The code that it is the scope of.
    code: Option<&'a str>,
}

enum Source<'a> {
    Document(bson::raw::RawIter<'a>),
    Array(bson::raw::RawArrayIter<'a>),
}

enum Built {
    Document(RawDocumentBuf),
    Array(RawArrayBuf),
}

impl<'a> Open<'a> {
    /// Opens a value that has values inside.
    fn of(value: RawBsonRef<'a>, name: &'a CStr) -> Option<Self> {
        let document = |source: &'a RawDocument, code| Self {
            source: Source::Document(source.iter_elements()),
            built: Built::Document(RawDocumentBuf::new()),
            name,
            code,
        };
        if let RawBsonRef::Document(inner) = value {
            return Some(document(inner, None));
        }
        if let RawBsonRef::JavaScriptCodeWithScope(code) = value {
            return Some(document(code.scope, Some(code.code)));
        }
        value.as_array().map(|inner| Self::array(inner, name))
    }

    fn array(inner: &'a RawArray, name: &'a CStr) -> Self {
        let built = Built::Array(RawArrayBuf::new());
        Self { source: Source::Array(inner.into_iter()), built, name, code: None }
    }

    /// The next value inside, with its name. Malformed bytes end the object, as they do where values are compared.
    fn next(&mut self) -> Option<(&'a CStr, RawBsonRef<'a>)> {
        match &mut self.source {
            Source::Document(elements) => {
                let element = elements.next()?.ok()?;
                Some((element.key(), element.value().ok()?))
            }
            Source::Array(values) => Some((bson::cstr!(""), values.next()?.ok()?)),
        }
    }

    fn push(&mut self, name: &CStr, value: RawBsonRef<'_>) {
        match &mut self.built {
            Built::Document(document) => document.append(name, value),
            Built::Array(array) => array.push(value),
        }
    }

    fn close(self) -> RawBson {
        match (self.built, self.code) {
            (Built::Array(array), _) => RawBson::Array(array),
            (Built::Document(document), None) => RawBson::Document(document),
            (Built::Document(scope), Some(code)) => {
                let code = code.to_owned();
                RawBson::JavaScriptCodeWithScope(bson::RawJavaScriptCodeWithScope { code, scope })
            }
        }
    }
}

/// An object or an array with the key forms of the values inside.
fn rebuilt(value: RawBsonRef<'_>, rules: &impl SortKeys) -> RawBson {
    let Some(outermost) = Open::of(value, bson::cstr!("")) else { return value.into() };
    let mut open = vec![outermost];
    while let Some(mut current) = open.pop() {
        match current.next() {
            // It is complete, and goes into what is around it.
            None => {
                let name = current.name;
                let closed = current.close();
                match open.last_mut() {
                    Some(outer) => outer.push(name, closed.as_raw_bson_ref()),
                    None => return closed,
                }
            }
            Some((name, value)) => {
                let inner = Open::of(value, name);
                if inner.is_none() {
                    current.push(name, of(value, rules).value());
                }
                open.push(current);
                open.extend(inner);
            }
        }
    }
    value.into()
}

/// The values of an object.
fn members(document: &RawDocument) -> impl Iterator<Item = RawBsonRef<'_>> {
    document.iter_elements().map_while(|element| element.ok()?.value().ok())
}
