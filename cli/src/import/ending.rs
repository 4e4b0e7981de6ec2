//! The end of an import: its messages, and whether the new documents replace the old ones.

use crate::failure::{Exit, Failure};
use crate::import::counts::Counts;
use crate::import::run::Importer;
use crate::import::write::Target;
use crate::store::Store;
use crate::talk::warn;

impl Importer<'_> {
    /// The failure with what was done before it.
    pub(super) fn told(&self, mut failure: Failure) -> Failure {
        if self.counts.read > 0 {
            let told = self.counts.told(self.arguments.dry_run);
            failure.message = format!("{}: {told}", failure.message);
        }
        if let Some(not_replaced) = &self.not_replaced {
            failure.message = format!("{}; {not_replaced}", failure.message);
        }
        self.placed(failure)
    }

    /// Describes the records that were rejected, if an import that came to its end has rejected any.
    pub(super) fn rejected(&self) -> Option<Failure> {
        let told = self.counts.told_after_rejects(self.arguments.dry_run)?;
        let files = self.rejects.shown().map(|files| format!("; what was rejected is in {files}"));
        Some(self.placed(Failure::new(Exit::Partly, told + &files.unwrap_or_default())))
    }

    fn placed(&self, mut failure: Failure) -> Failure {
        // The line to look at: where it ended, or the first that was rejected if it came to the end.
        let refused = self.first_reject.filter(|_| failure.exit == Exit::Partly);
        failure.line = failure.line.or(refused).or(self.last.as_ref().map(|(_, line)| *line));
        failure
    }

    /// Puts the new collection in place of the old one.
    pub(super) fn replace(&mut self, store: Option<&dyn Store>) -> Result<(), Failure> {
        let Some((store, replacement)) = store.zip(self.replacement.as_ref()) else { return Ok(()) };
        let Counts { read, rejected, .. } = self.counts;
        // An error page that has the name of the file is not new content.
        if read > 0 && rejected == read {
            return Err(Failure::new(Exit::Partly, "every record was rejected"));
        }
        if let Err(failure) = replacement.put_in_place(store) {
            if failure.exit == Exit::NoStore {
                self.not_replaced =
                    Some(format!("whether {} was replaced is not known", replacement.shown()));
            }
            return Err(failure);
        }
        self.replacement = None;
        store.sync()
    }

    /// Says that the old collection stays, if it was to be replaced and was not. What came in is removed, unless the same command
    /// goes on with it.
    pub(super) fn leave_old(
        &mut self,
        store: Option<&dyn Store>,
        done: Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Some((store, replacement)) = store.zip(self.replacement.take()) else { return done };
        let goes_on = if self.trail.is_some() { ", and the same command continues" } else { "" };
        let shown = replacement.shown();
        self.not_replaced.get_or_insert_with(|| format!("{shown} is as it was{goes_on}"));
        if self.trail.is_none() {
            self.counts.discard();
            if let Err(failure) = replacement.discard(store) {
                let Target { database, collection, .. } = &replacement.aside;
                warn(&format!("{database}.{collection} is left, and of no use: {failure}"));
            }
        }
        done.map_err(|failure| Failure { message: replacement.told(&failure.message), ..failure })
    }
}
