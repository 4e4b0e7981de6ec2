//! The collections that a view reads, under the names that they have after `--rename`: the one that it is on, and
//! those of the stages of its pipeline.

use cairndb::bson::{Bson, Document};

use crate::failure::Failure;
use crate::patterns::{Rename, renamed};

/// The stages that read another collection, each with the field that names it.
const STAGES: [(&str, &str); 3] = [("$lookup", "from"), ("$graphLookup", "from"), ("$unionWith", "coll")];

/// A view on its way from one database to another.
pub(super) struct Reading<'a> {
    pub(super) rules: &'a [Rename],
    /// The database of the view in the source.
    pub(super) from: &'a str,
    /// The database that it gets.
    pub(super) to: &'a str,
}

/// The reason why a view cannot be created: an invalid command line, or the reason that leaves out this view alone.
enum Unreadable {
    Failed(Failure),
    Elsewhere(String),
}

impl Reading<'_> {
    /// Gives the options of a view the names of what it reads. The inner error says why it cannot read it.
    pub(super) fn rename(&self, options: &mut Document) -> Result<Result<(), String>, Failure> {
        match self.rename_all(options) {
            Ok(()) => Ok(Ok(())),
            Err(Unreadable::Elsewhere(reason)) => Ok(Err(reason)),
            Err(Unreadable::Failed(failure)) => Err(failure),
        }
    }

    fn rename_all(&self, options: &mut Document) -> Result<(), Unreadable> {
        if let Some(Bson::String(name)) = options.get_mut("viewOn") {
            self.rename_one(name)?;
        }
        options.get_mut("pipeline").map_or(Ok(()), |pipeline| self.rename_in_pipeline(pipeline))
    }

    fn rename_in_pipeline(&self, pipeline: &mut Bson) -> Result<(), Unreadable> {
        let Bson::Array(stages) = pipeline else { return Ok(()) };
        let stages = stages.iter_mut().filter_map(Bson::as_document_mut);
        for (name, options) in stages.flat_map(Document::iter_mut) {
            self.rename_in_stage(name, options)?;
        }
        Ok(())
    }

    fn rename_in_stage(&self, stage: &str, options: &mut Bson) -> Result<(), Unreadable> {
        if stage == "$facet" {
            let pipelines = options.as_document_mut().into_iter().flat_map(Document::iter_mut);
            return pipelines.map(|(_, pipeline)| pipeline).try_for_each(|one| self.rename_in_pipeline(one));
        }
        let Some((_, field)) = STAGES.iter().find(|(name, _)| *name == stage) else { return Ok(()) };
        if let Bson::String(name) = options {
            // The short form of `$unionWith`.
            return self.rename_one(name);
        }
        let Some(options) = options.as_document_mut() else { return Ok(()) };
        if let Some(Bson::String(name)) = options.get_mut(*field) {
            self.rename_one(name)?;
        }
        options.get_mut("pipeline").map_or(Ok(()), |pipeline| self.rename_in_pipeline(pipeline))
    }

    fn rename_one(&self, name: &mut String) -> Result<(), Unreadable> {
        let (database, new) = renamed(self.rules, self.from, name).map_err(Unreadable::Failed)?;
        if database != self.to {
            let Self { from, to, .. } = self;
            let reason =
                format!("the view would be in {to}, and {from}.{name}, which it reads, in {database}");
            return Err(Unreadable::Elsewhere(reason));
        }
        *name = new;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use cairndb::bson::doc;

    use super::*;

    fn renamed_options(rules: &[&str], to: &str, mut options: Document) -> Result<Document, String> {
        let rules: Vec<Rename> = rules.iter().map(|rule| Rename::parse(rule).unwrap()).collect();
        let reading = Reading { rules: &rules, from: "shop", to };
        reading.rename(&mut options).unwrap().map(|()| options)
    }

    #[test]
    fn all_that_a_view_reads_is_renamed() {
        let view = |prefix: &str| {
            let name = |name: &str| format!("{prefix}{name}");
            let nested =
                doc! { "$unionWith": { "coll": name("d"), "pipeline": [{ "$unionWith": name("e") }] } };
            doc! { "viewOn": name("a"), "pipeline": [
                { "$match": { "from": "a", "$lookup": 1 } },
                { "$lookup": { "from": name("b"), "as": "x", "pipeline": [nested] } },
                { "$facet": { "one": [{ "$graphLookup": { "from": name("c"), "as": "y" } }], "two": [] } },
                { "$lookup": { "as": "z", "pipeline": [{ "$documents": [] }] } },
            ] }
        };
        assert_eq!(renamed_options(&["shop.*=arch.old_*"], "arch", view("")), Ok(view("old_")));
        assert_eq!(renamed_options(&["web.*=arch.*"], "shop", view("")), Ok(view("")));
    }

    #[test]
    fn a_view_cannot_read_another_database() {
        let view = doc! { "viewOn": "a", "pipeline": [{ "$unionWith": "b" }] };
        let reason = renamed_options(&["shop.b=arch.b"], "shop", view).unwrap_err();
        assert_eq!(reason, "the view would be in shop, and shop.b, which it reads, in arch");
    }

    #[test]
    fn a_name_that_is_none_is_the_fault_of_the_command_line() {
        let rules = [Rename::parse("shop.a*=arch*").unwrap()];
        let reading = Reading { rules: &rules, from: "shop", to: "arch" };
        assert!(reading.rename(&mut doc! { "viewOn": "a" }).is_err());
    }
}
