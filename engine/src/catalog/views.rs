//! Views: what they are declared to be, which names they read, and what may be declared of them together.
//!
//! A view has no documents, so it is nothing but its entry in the catalog and its state in memory. Views of a database make a
//! graph by the names that they read. It has no circle and no long path: both are rejected when a view is made or changed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use base::codes::refused;
use base::error::{Error, Result};
use base::namespace::Namespace;
use bson::{Bson, DateTime, Document, RawDocumentBuf};
use index::collation::Collation;
use query::code::Code;
use query::expression::Variables;
use query::pipeline::{Pipeline, Source};
use store::keys::CollectionId;

use crate::catalog::settings::{COLLATION, decode_collation, describe_collation};

/// The names of the fields, in catalog entries as in MongoDB's descriptions of views.
pub(crate) const VIEW_ON: &str = "viewOn";
pub(crate) const PIPELINE: &str = "pipeline";

/// The limit of views over each other. This is MongoDB's limit.
pub(crate) const DEPTH_MAX: usize = 20;

/// The limit of the pipelines of views over each other together, in bytes.
const PIPELINE_BYTES_MAX: usize = 16 << 20;

/// Stages that write, which no view may have, at any depth.
const WRITERS: [&str; 2] = ["$merge", "$out"];

/// The declaration of a view: a pipeline over a collection or another view of its database.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ViewDefinition {
    pub(crate) on: String,
    pub(crate) pipeline: Vec<Document>,
    /// The comparison of strings in its pipeline and the operations on it.
    pub(crate) collation: Collation,
}

/// A view in memory. A change of its definition makes another one.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) id: CollectionId,
    pub(crate) namespace: Namespace,
    pub(crate) definition: ViewDefinition,
    /// All names that it reads, ascending: its source, and what its stages read besides.
    reads: Vec<String>,
}

/// The views that some names lead to, all of one moment.
pub(crate) struct ViewSet {
    views: HashMap<String, Arc<View>>,
}

/// A view whose views below it are replaced by their pipelines.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    /// The name that is not a view. A collection may have it, or none.
    pub(crate) base: String,
    /// The names of the views, from the one that was asked for down.
    pub(crate) views: Vec<String>,
    pub(crate) stages: Vec<Document>,
    /// The comparison of strings in all of the views.
    pub(crate) collation: Collation,
}

impl ViewDefinition {
    /// Checks the names and the stages. What the names mean may come later, or never.
    pub(crate) fn check(&self, db: &str) -> Result<()> {
        // Writers first, so that they are rejected as such even where the stage itself is not supported.
        Namespace::parse(db, &self.on)?;
        if let Some(stage) = self.pipeline.iter().find_map(writer) {
            let message = format!("The aggregation stage {stage} cannot be used in the definition of a view");
            return Err(refused(Code::OPTION_NOT_SUPPORTED_ON_VIEW, message));
        }
        let pipeline = self.parse()?;
        // Such a stage gives documents of its own, or describes a collection, which the view has not.
        if let Some(stage) = pipeline.source().stage() {
            let message = format!("The aggregation stage {stage} cannot be used in the definition of a view");
            return Err(refused(Code::OPTION_NOT_SUPPORTED_ON_VIEW, message));
        }
        // The names that stages read are checked like the view's own: a reader could not open others.
        pipeline.foreign_collections().into_iter().try_for_each(|name| Namespace::parse(db, name).map(|_| ()))
    }

    fn parse(&self) -> Result<Pipeline> {
        let stages = self.pipeline.iter().map(RawDocumentBuf::try_from);
        let stages = stages.collect::<std::result::Result<Vec<_>, _>>()?;
        let variables = Variables::new(DateTime::now()).with_collation(self.collation.clone());
        Ok(Pipeline::parse(&stages, &variables)?)
    }

    /// The names that the view reads, ascending.
    fn reads(&self) -> Vec<String> {
        let mut names = vec![self.on.clone()];
        // One that was stored by a later version may have stages that this one does not know. Then its readers are rejected.
        if let Ok(pipeline) = self.parse()
            && *pipeline.source() == Source::Collection
        {
            names.extend(pipeline.foreign_collections().into_iter().map(str::to_owned));
        }
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Adds the fields of the definition, in MongoDB's names.
    pub(crate) fn describe(&self, description: &mut Document) {
        description.insert(VIEW_ON, &self.on);
        description.insert(PIPELINE, &self.pipeline);
        describe_collation(&self.collation, description);
    }

    /// Reads what [`describe`](Self::describe) wrote. The error says what is wrong.
    pub(crate) fn decode(description: &Document) -> std::result::Result<Self, String> {
        let on = description.get_str(VIEW_ON).map_err(|_| format!("{VIEW_ON} is not a string"))?.to_owned();
        let stages = description.get_array(PIPELINE).map_err(|_| format!("{PIPELINE} is not an array"))?;
        let stages = stages.iter().map(|stage| stage.as_document().cloned());
        let pipeline = stages.collect::<Option<Vec<_>>>();
        let collation = description.get(COLLATION).map(decode_collation).transpose()?;
        Ok(Self {
            on,
            collation: collation.unwrap_or_default(),
            pipeline: pipeline.ok_or_else(|| format!("{PIPELINE} has a stage that is not a document"))?,
        })
    }
}

impl View {
    pub(crate) fn new(id: CollectionId, namespace: Namespace, definition: ViewDefinition) -> Self {
        let reads = definition.reads();
        Self { id, namespace, definition, reads }
    }

    /// All names that the view reads, ascending.
    pub(crate) fn reads(&self) -> &[String] {
        &self.reads
    }
}

impl ViewSet {
    /// The views that `names` lead to. `find` returns the view of a name, and `None` for any other name.
    pub(crate) fn reached<'n>(
        names: impl IntoIterator<Item = &'n str>,
        find: impl Fn(&str) -> Option<Arc<View>>,
    ) -> Self {
        let mut views: HashMap<String, Arc<View>> = HashMap::new();
        // A name can be reached in several ways, and is looked up once.
        let mut waiting: Vec<String> = names.into_iter().map(str::to_owned).collect();
        // Each view is looked at once, so this ends whatever the graph looks like.
        while let Some(name) = waiting.pop() {
            if views.contains_key(&name) {
                continue;
            }
            if let Some(view) = find(&name) {
                waiting.extend(view.reads().iter().cloned());
                views.insert(name, view);
            }
        }
        Self { views }
    }

    /// Whether both have the same definitions of the same views. A change makes another view, also one that is undone.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let is_there = |(name, view): (&String, &Arc<View>)| {
            other.views.get(name).is_some_and(|other| Arc::ptr_eq(view, other))
        };
        self.views.len() == other.views.len() && self.views.iter().all(is_there)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.views.is_empty()
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.views.contains_key(name)
    }

    /// The names of the views.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.views.keys().map(String::as_str)
    }

    /// The names that views read and that are not views themselves.
    pub(crate) fn bases(&self) -> impl Iterator<Item = &str> {
        let reads = self.views.values().flat_map(|view| view.reads().iter());
        reads.map(String::as_str).filter(|name| !self.contains(name))
    }

    /// The collection and pipeline that a view leads to. Returns `None` if the name is not a view.
    pub(crate) fn resolve(&self, name: &str) -> Result<Option<Resolved>> {
        let Some(view) = self.views.get(name) else { return Ok(None) };
        let (mut base, mut parts) = (&view.definition.on, vec![&view.definition.pipeline]);
        let mut names = vec![name.to_owned()];
        while let Some(below) = self.views.get(base) {
            // Rejected when it was made. Checked again, because a stored catalog may have come from anywhere.
            if parts.len() == DEPTH_MAX {
                return Err(too_deep());
            }
            parts.push(&below.definition.pipeline);
            names.push(base.clone());
            base = &below.definition.on;
        }
        // The outermost view comes last.
        let stages: Vec<Document> = parts.into_iter().rev().flatten().cloned().collect();
        // Twenty views of 16 MiB each would be parsed by every reader.
        let bytes: usize = stages.iter().map(|stage| stage.to_vec().map_or(0, |bytes| bytes.len())).sum();
        if bytes > PIPELINE_BYTES_MAX {
            let message = format!("View pipeline exceeds maximum size; maximum size is {PIPELINE_BYTES_MAX}");
            return Err(refused(Code::VIEW_PIPELINE_MAX_SIZE_EXCEEDED, message));
        }
        // Those below it have the same, which was made sure of when they were made.
        let collation = view.definition.collation.clone();
        Ok(Some(Resolved { base: base.clone(), views: names, stages, collation }))
    }
}

/// Checks that all views of a database, a new one among them, make a graph without a circle and without a long path.
/// `name` is that of the new one, for the error.
pub(crate) fn check_graph<'v>(name: &str, views: impl IntoIterator<Item = &'v View>) -> Result<()> {
    let views: BTreeMap<&str, &View> =
        views.into_iter().map(|view| (view.namespace.coll.as_str(), view)).collect();
    // All of them, and not only the new one: it may raise those that are above it.
    let mut heights: HashMap<&str, usize> = HashMap::new();
    for start in views.keys().copied() {
        height(start, &views, &mut Walk { heights: &mut heights, path: Vec::new(), name })?;
    }
    Ok(())
}

/// The way from a view to the ones below it.
struct Walk<'w, 'v> {
    /// The heights that are known: how many views are on each other from there on.
    heights: &'w mut HashMap<&'v str, usize>,
    path: Vec<&'v str>,
    name: &'w str,
}

/// The number of views over each other from `start` on, itself included; 0 for a name that is not a view.
fn height<'v>(start: &'v str, views: &BTreeMap<&'v str, &'v View>, walk: &mut Walk<'_, 'v>) -> Result<usize> {
    let Some(view) = views.get(start) else { return Ok(0) };
    if let Some(known) = walk.heights.get(start) {
        return Ok(*known);
    }
    if let Some(at) = walk.path.iter().position(|name| *name == start) {
        let circle = walk.path.iter().skip(at).chain([&start]).copied().collect::<Vec<_>>().join(" -> ");
        let message = format!("view {} would create a cycle: {circle}", walk.name);
        return Err(refused(Code::GRAPH_CONTAINS_CYCLE, message));
    }
    // Bounds the recursion as well.
    if walk.path.len() == DEPTH_MAX {
        return Err(too_deep());
    }
    // Pushed before the names below it are looked at, so that one of them can close a circle.
    walk.path.push(start);
    let mut below = 0;
    for name in view.reads() {
        if let Some(read) = views.get(name.as_str()) {
            refuse_other_collation(view, read)?;
        }
        below = below.max(height(name, views, walk)?);
    }
    walk.path.pop();
    if below == DEPTH_MAX {
        return Err(too_deep());
    }
    walk.heights.insert(start, below + 1);
    Ok(below + 1)
}

/// Rejects a view that reads another one which compares texts in another way: the documents of that one would be others.
fn refuse_other_collation(view: &View, read: &View) -> Result<()> {
    if view.definition.collation == read.definition.collation {
        return Ok(());
    }
    let (view, read) = (&view.namespace, &read.namespace);
    let message = format!("View {view} has a collation that conflicts with the collation of view {read}");
    Err(refused(Code::OPTION_NOT_SUPPORTED_ON_VIEW, message))
}

fn too_deep() -> Error {
    let message = format!("View depth limit exceeded; maximum depth is {DEPTH_MAX}");
    refused(Code::VIEW_DEPTH_LIMIT_EXCEEDED, message)
}

/// The error for what views do not support.
pub(crate) fn is_a_view(namespace: &Namespace) -> Error {
    let message = format!("Namespace {namespace} is a view, not a collection");
    Error::command(Code::COMMAND_NOT_SUPPORTED_ON_VIEW, message).in_namespace(namespace)
}

/// The first stage that writes, in a stage or in the pipelines within it.
fn writer(stage: &Document) -> Option<&'static str> {
    // A list in place of recursion: a command may be nested deeply. Only names of stages count, which are the first fields of
    // documents in arrays, or of the stage itself.
    let mut waiting: Vec<&Document> = vec![stage];
    while let Some(stage) = waiting.pop() {
        let Some((name, operand)) = stage.iter().next() else { continue };
        if let Some(writer) = WRITERS.into_iter().find(|writer| writer == name) {
            return Some(writer);
        }
        // `$lookup` and `$unionWith` have a pipeline as an option, `$facet` under names of the caller's choice.
        if !matches!(name.as_str(), "$lookup" | "$unionWith" | "$facet") {
            continue;
        }
        let options = operand.as_document().into_iter().flat_map(Document::values);
        let stages = options.filter_map(Bson::as_array).flatten().filter_map(Bson::as_document);
        waiting.extend(stages);
    }
    None
}
