//! The columns of a table: the paths that their names are, the documents and arrays that these make, and the types.

use std::iter;
use std::sync::Arc;

use bson::spec::ElementType;
use index::validate::NESTING_MAX;

use crate::cell::{CellType, Kind};
use crate::dates::FOREIGN;
use crate::element::{Frame, TypeByte};
use crate::refusal::{Refusal, shown};

/// More columns than this are rejected.
pub const COLUMNS_MAX: usize = 10_000;

/// The way in which cells become values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Typing {
    /// Numbers, dates and truth values where nothing is lost by it, otherwise texts: each column as a whole once its
    /// cells were looked at by [`Survey`], and each cell by itself if they were not.
    #[default]
    Auto,
    /// Texts.
    Text,
    /// As the names of the columns say: `price.double`.
    Typed,
}

/// The user's wishes for columns.
#[derive(Clone, Debug, Default)]
pub struct ColumnOptions {
    /// Dots are part of names.
    pub is_flat: bool,
    /// Names that are numbers make arrays.
    pub has_arrays: bool,
    /// The way in which cells become values.
    pub typing: Typing,
    /// The text that means null.
    pub null: Option<String>,
    /// Empty cells make no field.
    pub ignores_blanks: bool,
}

/// The columns of a table.
///
/// ```
/// use cairndb_formats::columns::{ColumnOptions, Columns};
///
/// let options = ColumnOptions::default();
/// assert!(Columns::new(["sku", "price.net", "price.gross"], &options).is_ok());
/// let refusal = Columns::new(["price", "price.net"], &options).err().expect("it is refused");
/// assert_eq!(refusal.to_string(), "the columns \"price\" and \"price.net\" exclude each other");
/// ```
#[derive(Debug)]
pub struct Columns {
    root: Arc<[Field]>,
    types: Vec<CellType>,
    null: Option<String>,
    ignores_blanks: bool,
}

/// The types that the cells of columns look like, as far as they were read.
#[derive(Debug, Default)]
pub struct Survey {
    columns: Vec<Seen>,
}

/// The types that the cells of one column look like.
#[derive(Clone, Debug, Default)]
enum Seen {
    #[default]
    Nothing,
    /// All of one kind, and the first of them.
    Kind(Kind, String),
    /// Cells that have no kind together.
    Mixed([String; 2]),
}

/// A column that stays text, because its cells are of several types.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the column {} has {}: all of them stay strings", shown(.column), told(.examples))]
pub struct Mixed {
    /// The path of the column.
    pub column: String,
    /// Two of its cells.
    pub examples: [String; 2],
}

fn told([one, other]: &[String; 2]) -> String {
    let of = |text: &str| format!("{} ({})", Kind::of(text).plural(), shown(text));
    format!("{} and {}", of(one), of(other))
}

impl Survey {
    /// Whether a column has had no cell that says anything.
    pub fn is_blank(&self, column: usize) -> bool {
        matches!(self.columns.get(column), None | Some(Seen::Nothing))
    }

    /// Looks at a row of a table with these columns. Rows that are wrong say nothing.
    pub(crate) fn look<'a>(&mut self, columns: &Columns, cell: &impl Fn(usize) -> Option<&'a str>) {
        self.columns.resize(columns.len(), Seen::Nothing);
        for (column, seen) in self.columns.iter_mut().enumerate() {
            let text = cell(column).filter(|text| !text.is_empty() && columns.null.as_deref() != Some(*text));
            if let Some(text) = text {
                seen.look(text);
            }
        }
    }
}

impl Seen {
    fn look(&mut self, text: &str) {
        /// The number of characters of an example that are kept.
        const CHARACTERS_MAX: usize = 80;
        let kept = || text.chars().take(CHARACTERS_MAX).collect::<String>();
        match self {
            Self::Mixed(_) => {}
            Self::Nothing => *self = Self::Kind(Kind::of(text), kept()),
            Self::Kind(kind, first) => match kind.with(Kind::of(text)) {
                Some(both) => *kind = both,
                None => *self = Self::Mixed([std::mem::take(first), kept()]),
            },
        }
    }
}

#[derive(Debug)]
struct Field {
    name: String,
    node: Node,
}

impl Field {
    /// The path from this field to a column.
    fn name_of(&self, column: usize) -> Option<String> {
        let below = self.node.name_of(column)?;
        Some(if below.is_empty() { self.name.clone() } else { format!("{}.{below}", self.name) })
    }
}

impl Node {
    /// The path from this node to a column: empty if it is the column.
    fn name_of(&self, column: usize) -> Option<String> {
        match self {
            Self::Cell(own) => (*own == column).then(String::new),
            Self::Fields(fields) => fields.iter().find_map(|field| field.name_of(column)),
            Self::Elements(elements) => elements.iter().enumerate().find_map(|(position, element)| {
                let below = element.name_of(column)?;
                Some(if below.is_empty() { position.to_string() } else { format!("{position}.{below}") })
            }),
        }
    }
}

#[derive(Debug)]
enum Node {
    /// The value of this column.
    Cell(usize),
    Fields(Vec<Field>),
    Elements(Vec<Node>),
}

impl Columns {
    /// Reads the names of columns. Returns the reason if they make no document.
    pub fn new<'a>(
        names: impl IntoIterator<Item = &'a str>,
        options: &ColumnOptions,
    ) -> Result<Self, Refusal> {
        let (mut root, mut types) = (Vec::new(), Vec::new());
        for (column, full) in names.into_iter().enumerate() {
            if column == COLUMNS_MAX {
                return Err(Refusal::not_parsed(format!("there are more than {COLUMNS_MAX} columns")));
            }
            let (name, of) = match options.typing {
                Typing::Auto => (full, CellType::Auto),
                Typing::Text => (full, CellType::Text),
                Typing::Typed => typed_name(full)?,
            };
            let parts: Vec<&str> = if options.is_flat { vec![name] } else { name.split('.').collect() };
            if parts.iter().any(|part| part.is_empty() || part.contains('\0')) || parts.len() >= NESTING_MAX {
                return Err(Refusal::not_parsed(format!(
                    "the column {} has no name for a field: {}",
                    column + 1,
                    shown(full)
                )));
            }
            place(&mut root, &parts, column).map_err(|clash| clash.told(name))?;
            types.push(of);
        }
        if options.has_arrays && !options.is_flat {
            for field in &mut root {
                make_arrays(&mut field.node, &field.name)?;
            }
        }
        Ok(Self {
            root: root.into(),
            types,
            null: options.null.clone(),
            ignores_blanks: options.ignores_blanks,
        })
    }

    /// The same columns, with one type for each that `survey` has looked at. Cells that look otherwise are rejected from then
    /// on; what has no one type is text, and is reported.
    pub fn surveyed(self: &Arc<Self>, survey: &Survey) -> (Self, Vec<Mixed>) {
        let mut mixed = Vec::new();
        let types = iter::zip(&self.types, 0..).map(|(of, column)| {
            if *of != CellType::Auto {
                return of.clone();
            }
            CellType::Seen(match survey.columns.get(column) {
                Some(Seen::Kind(kind, _)) => *kind,
                Some(Seen::Mixed(examples)) => {
                    let name = self.name_of(column).unwrap_or_default();
                    mixed.push(Mixed { column: name, examples: examples.clone() });
                    Kind::Text
                }
                Some(Seen::Nothing) | None => Kind::Text,
            })
        });
        let columns = Self {
            types: types.collect(),
            root: Arc::clone(&self.root),
            null: self.null.clone(),
            ignores_blanks: self.ignores_blanks,
        };
        (columns, mixed)
    }

    /// The path of a column.
    fn name_of(&self, column: usize) -> Option<String> {
        self.root.iter().find_map(|field| field.name_of(column))
    }

    /// The number of columns.
    pub(crate) fn len(&self) -> usize {
        self.types.len()
    }

    /// Appends the document of a row.
    pub(crate) fn write<'a>(
        &self,
        out: &mut Vec<u8>,
        cell: &impl Fn(usize) -> Option<&'a str>,
    ) -> Result<(), Refusal> {
        let frame = Frame::begin(out);
        Row { columns: self, cell }.fields(out, &self.root)?;
        frame.end_document(out);
        Ok(())
    }
}

/// The names in a list of columns. A comma in brackets belongs to the format of a date.
pub fn names(list: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let parts = list.split(|character| {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        character == ',' && depth == 0
    });
    parts.map(str::trim).collect()
}

/// Whether a name ends with a type, of these or of mongoimport's.
///
/// ```
/// use cairndb_formats::columns::is_typed;
///
/// assert!(is_typed("price.double") && is_typed("at.date(%d.%m.%Y)") && is_typed("at.date_ms(yyyy)"));
/// assert!(!is_typed("price.net") && !is_typed("double"));
/// ```
pub fn is_typed(full: &str) -> bool {
    let is_known = |word: &str| {
        FOREIGN.contains(&word) || matches!(word, "binary" | "date") || CellType::of(word, None).is_ok()
    };
    split_type(full).is_some_and(|(_, word, _)| is_known(word))
}

/// The name, the type and what is in its brackets.
fn split_type(full: &str) -> Option<(&str, &str, Option<&str>)> {
    // The last dot before which a name can end: the format of a date may have dots of its own.
    let mut dots = full.rmatch_indices('.').map(|(at, _)| at).filter(|at| *at > 0);
    dots.find_map(|at| {
        let (name, after) = (full.get(..at)?, full.get(at + 1..)?);
        let (word, argument) = match after.strip_suffix(')').and_then(|rest| rest.split_once('(')) {
            Some((word, argument)) => (word, Some(argument)),
            None => (after, None),
        };
        let is_word = word.chars().all(|character| character.is_ascii_alphanumeric() || character == '_');
        (is_word && !word.is_empty()).then_some((name, word, argument))
    })
}

/// Removes the type from a name: `at.date(%d.%m.%Y)`.
fn typed_name(full: &str) -> Result<(&str, CellType), Refusal> {
    let found = split_type(full);
    let Some((name, word, argument)) = found else {
        return Err(Refusal::not_parsed(format!("the column {} has no type: name.type", shown(full))));
    };
    let of = CellType::of(word, argument)
        .map_err(|refusal| Refusal { reason: format!("the column {}: {refusal}", shown(full)), ..refusal })?;
    Ok((name, of))
}

/// Two columns that are at the same place, or one within the other.
struct Clash {
    other: Option<String>,
}

impl Clash {
    fn told(self, name: &str) -> Refusal {
        Refusal::not_parsed(match self.other {
            None => format!("the column {} appears twice", shown(name)),
            Some(other) => {
                format!("the columns {} and {} exclude each other", shown(&other), shown(name))
            }
        })
    }
}

/// Puts a column at its path.
fn place(fields: &mut Vec<Field>, parts: &[&str], column: usize) -> Result<(), Clash> {
    let mut fields = fields;
    let mut walked: Vec<&str> = Vec::new();
    let Some((last, above)) = parts.split_last() else { return Ok(()) };
    for part in above {
        walked.push(part);
        let at = position(fields, part);
        if at == fields.len() {
            fields.push(Field { name: (*part).to_owned(), node: Node::Fields(Vec::new()) });
        }
        match fields.get_mut(at).map(|field| &mut field.node) {
            Some(Node::Fields(below)) => fields = below,
            Some(Node::Cell(_) | Node::Elements(_)) | None => {
                return Err(Clash { other: Some(walked.join(".")) });
            }
        }
    }
    let at = position(fields, last);
    match fields.get(at).map(|field| &field.node) {
        None => {
            fields.push(Field { name: (*last).to_owned(), node: Node::Cell(column) });
            Ok(())
        }
        Some(Node::Cell(_)) => Err(Clash { other: None }),
        Some(Node::Fields(below)) => {
            let first = below.first().map(|field| field.name.as_str());
            Err(Clash { other: Some(parts.iter().copied().chain(first).collect::<Vec<_>>().join(".")) })
        }
        Some(Node::Elements(_)) => Err(Clash { other: Some(parts.join(".")) }),
    }
}

fn position(fields: &[Field], name: &str) -> usize {
    // The last one is asked first: columns of one document mostly follow each other.
    match fields.last() {
        Some(last) if last.name == name => fields.len() - 1,
        Some(_) | None => fields.iter().position(|field| field.name == name).unwrap_or(fields.len()),
    }
}

/// Makes arrays of documents whose names are the numbers from 0 on.
fn make_arrays(node: &mut Node, path: &str) -> Result<(), Refusal> {
    let Node::Fields(fields) = node else { return Ok(()) };
    for field in fields.iter_mut() {
        make_arrays(&mut field.node, &format!("{path}.{}", field.name))?;
    }
    let is_number = |field: &Field| field.name.bytes().all(|byte| byte.is_ascii_digit());
    if !fields.iter().all(is_number) {
        return Ok(());
    }
    fields.sort_by_key(|field| field.name.parse::<usize>().unwrap_or(usize::MAX));
    if fields.iter().enumerate().any(|(position, field)| field.name != position.to_string()) {
        let shown = shown(path);
        return Err(Refusal::not_parsed(format!("the elements of {shown} are not numbered from 0 on")));
    }
    *node = Node::Elements(std::mem::take(fields).into_iter().map(|field| field.node).collect());
    Ok(())
}

/// One row, on its way into a document.
struct Row<'c, F> {
    columns: &'c Columns,
    cell: &'c F,
}

impl<'a, F: Fn(usize) -> Option<&'a str>> Row<'_, F> {
    /// Writes the fields that have values. Returns whether there are any.
    fn fields(&self, out: &mut Vec<u8>, fields: &[Field]) -> Result<bool, Refusal> {
        let mut has_any = false;
        for field in fields {
            let before = out.len();
            let kind = TypeByte::begin(out, &field.name);
            match self.node(out, &field.node)? {
                Some(found) => {
                    kind.set(out, found);
                    has_any = true;
                }
                None => out.truncate(before),
            }
        }
        Ok(has_any)
    }

    /// Writes a value. Returns its type, or `None` if there is none.
    fn node(&self, out: &mut Vec<u8>, node: &Node) -> Result<Option<ElementType>, Refusal> {
        let frame = match node {
            Node::Cell(column) => return self.value(out, *column),
            Node::Fields(_) | Node::Elements(_) => Frame::begin(out),
        };
        let (has_any, kind) = match node {
            Node::Fields(fields) => (self.fields(out, fields)?, ElementType::EmbeddedDocument),
            Node::Elements(elements) => (self.elements(out, elements)?, ElementType::Array),
            Node::Cell(_) => (false, ElementType::Null),
        };
        frame.end_document(out);
        Ok(has_any.then_some(kind))
    }

    /// Writes elements up to the last that has a value. One that has none before it is null, so that the others keep
    /// their positions.
    fn elements(&self, out: &mut Vec<u8>, elements: &[Node]) -> Result<bool, Refusal> {
        let mut end = None;
        for (position, element) in iter::zip(0_u32.., elements) {
            let kind = TypeByte::begin_at(out, position);
            let before = out.len();
            match self.node(out, element)? {
                Some(found) => {
                    kind.set(out, found);
                    end = Some(out.len());
                }
                None => out.truncate(before),
            }
        }
        out.truncate(end.unwrap_or(out.len()));
        Ok(end.is_some())
    }

    fn value(&self, out: &mut Vec<u8>, column: usize) -> Result<Option<ElementType>, Refusal> {
        let Some(text) = (self.cell)(column) else { return Ok(None) };
        if self.columns.null.as_deref() == Some(text) {
            return Ok(Some(ElementType::Null));
        }
        if text.is_empty() && self.columns.ignores_blanks {
            return Ok(None);
        }
        let Some(of) = self.columns.types.get(column) else { return Ok(None) };
        let written = of.write(out, text);
        written
            .map(Some)
            .map_err(|refusal| Refusal { reason: format!("column {}: {refusal}", column + 1), ..refusal })
    }
}
