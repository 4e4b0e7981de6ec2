//! The paths of a collection's auto-increment fields as a tree, so that each level of a document is walked once.

use base::write_error::Refusal;
use index::element::Element;
use index::validate::NESTING_MAX;
use sequence::auto_increment::Field;
use sequence::error::SequenceError;

use crate::document::draft::Facts;
use crate::document::timestamp::Timestamps;
use crate::document::validate::{validate, validate_each};

/// The number of characters of a path that an error about its depth repeats.
const PATH_CHARACTERS_SHOWN: usize = 48;
const ID: &str = "_id";

/// The paths of fields as a tree.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldTree {
    /// Ascending by name.
    pub(super) nodes: Vec<FieldNode>,
    /// The most bytes that the fields can add to a document.
    pub(super) room: usize,
    /// Whether `_id` is the only name of the outermost level.
    is_id_only: bool,
}

/// A name on the path of a field.
#[derive(Clone, Debug)]
pub(super) struct FieldNode {
    pub(super) name: String,
    /// The dotted path to here.
    pub(super) path: String,
    /// Position of the field that ends here.
    pub(super) field: Option<usize>,
    pub(super) below: FieldTree,
}

/// The summary of a document that a validation makes, next to the fields of its collection.
#[derive(Clone, Debug)]
pub(crate) struct Surveyed {
    pub(super) facts: Facts,
    /// Whether the document has a name of the tree's outermost level.
    pub(super) has_field_name: bool,
}

impl Surveyed {
    /// Whether the document has neither an `_id` nor a name of the outermost level of a field.
    #[inline]
    pub(crate) fn lacks_id_and_fields(&self) -> bool {
        self.facts.id.is_none() && !self.has_field_name
    }

    pub(crate) fn timestamps(&self) -> Timestamps {
        self.facts.timestamps
    }
}

impl FieldTree {
    /// The tree of paths, whose positions are their fields'.
    pub(crate) fn new<'a>(paths: impl Iterator<Item = &'a str>) -> Self {
        let mut tree = Self::default();
        for (field, path) in paths.enumerate() {
            tree.add("", path, field);
            // A nested document needs its type byte, name, terminator, length and end; a field 8 bytes more. So copies never grow.
            tree.room += path.split('.').map(|name| name.len() + 7).sum::<usize>() + 8;
        }
        tree.is_id_only = matches!(tree.nodes.as_slice(), [only] if only.name == ID);
        tree
    }

    fn add(&mut self, above: &str, rest: &str, field: usize) {
        let (name, rest) = rest.split_once('.').map_or((rest, None), |(name, rest)| (name, Some(rest)));
        let at = match self.nodes.binary_search_by(|node| node.name.as_str().cmp(name)) {
            Ok(at) => at,
            Err(at) => {
                let path = format!("{above}{name}");
                let node = FieldNode { name: name.to_owned(), path, field: None, below: Self::default() };
                self.nodes.insert(at, node);
                at
            }
        };
        let Some(node) = self.nodes.get_mut(at) else { return };
        // Never both at one node: the catalog rejects a field that is above or below another.
        match rest {
            None => node.field = Some(field),
            Some(rest) => node.below.add(&format!("{}.", node.path), rest, field),
        }
    }

    /// Validates a document, and says whether it has a name of the outermost level.
    ///
    /// # Errors
    /// What makes the document unfit to be stored.
    #[inline]
    pub(crate) fn survey(&self, document: &[u8]) -> Result<Surveyed, Refusal> {
        if self.is_id_only {
            // Validation finds the `_id` by itself, without a look at every name.
            let facts = Facts::of(&validate(document)?);
            let has_field_name = facts.id.is_some();
            return Ok(Surveyed { facts, has_field_name });
        }
        self.survey_names(document)
    }

    /// Compares each top-level name with those of the tree. It is one function, not inlined, so
    /// that the reading of elements is compiled into it once.
    fn survey_names(&self, document: &[u8]) -> Result<Surveyed, Refusal> {
        let mut has_field_name = false;
        let valid = validate_each(document, |element| has_field_name |= self.has_name_of(element))?;
        Ok(Surveyed { facts: Facts::of(&valid), has_field_name })
    }

    /// Whether an element, which starts with its type byte, has a name of the outermost level.
    #[inline]
    fn has_name_of(&self, element: &[u8]) -> bool {
        let named = element.get(1..).unwrap_or_default();
        // The terminator first: it is one byte, and rules most names out.
        self.nodes
            .iter()
            .map(|node| node.name.as_bytes())
            .any(|name| named.get(name.len()) == Some(&0) && named.starts_with(name))
    }

    /// The node of an element's name on the outermost level, with its position.
    pub(super) fn node_of(&self, element: &Element<'_>) -> Option<(usize, &FieldNode)> {
        // In order: most collections have one or two of these fields.
        self.nodes.iter().enumerate().find(|(_, node)| node.name.as_bytes() == element.name)
    }

    /// The node of `_id`, with its position.
    pub(super) fn id_node(&self) -> Option<(usize, &FieldNode)> {
        self.nodes.iter().enumerate().find(|(_, node)| node.name == ID)
    }
}

/// Rejects a field that lies deeper than a document reaches: no document could be completed with it.
pub(crate) fn check_depth(field: &Field) -> Result<(), SequenceError> {
    // `nth` stops at the limit, however long the path is.
    if field.segments().nth(NESTING_MAX).is_none() {
        return Ok(());
    }
    let shown = field.path().chars().take(PATH_CHARACTERS_SHOWN).collect::<String>() + "...";
    Err(SequenceError::Field { field: shown, reason: "it lies deeper than a document reaches" })
}
