//! The companions of an audit: its pace, its end, and its reports of progress.

use std::time::{Duration, Instant};

use base::error::Result;
use base::namespace::Namespace;
use bson::Document;
use query::operation::OperationContext;
use store::pace::Pace;

use crate::progress::{VerifyPhase, VerifyProgress};

/// The interval of progress reports within a phase.
const INTERVAL: Duration = Duration::from_millis(100);

/// A function that receives the progress of a verification.
pub(crate) type Callback<'a> = dyn FnMut(&VerifyProgress) + Send + 'a;

/// Says why the result of a token is none that the call with a name has stored.
pub(crate) type Damage = fn(&str, Document) -> Option<&'static str>;

/// The course of one verification.
pub(crate) struct Watch<'a> {
    pub(super) pace: Pace<'a>,
    pub(super) operation: &'a OperationContext,
    pub(super) teller: Teller<'a>,
}

/// Reports the progress of a verification.
pub(super) struct Teller<'a> {
    progress: VerifyProgress,
    told: Instant,
    tell: Option<Box<Callback<'a>>>,
}

impl<'a> Watch<'a> {
    /// The watch of a verification that is a part of an operation.
    pub(crate) fn new(
        pace: Pace<'a>,
        operation: &'a OperationContext,
        tell: Option<Box<Callback<'a>>>,
    ) -> Self {
        let teller = Teller { progress: VerifyProgress::default(), told: Instant::now(), tell };
        Self { pace, operation, teller }
    }

    /// Notes that a record or an entry of `bytes` bytes is read. Fails if the audit is to end.
    pub(super) fn pass(&mut self, bytes: usize) -> Result<()> {
        self.pace.spend(bytes as u64)?;
        self.teller.advance(1);
        Ok(())
    }
}

impl Teller<'_> {
    /// Begins a phase. `total` is 0 if it is not known.
    pub(super) fn begin(&mut self, phase: VerifyPhase, total: u64) {
        self.progress = VerifyProgress { phase, namespace: String::new(), done: 0, total };
        self.tell();
    }

    /// Notes which collection is read from here on. `None` means what belongs to no collection.
    pub(super) fn enter(&mut self, namespace: Option<&Namespace>) {
        // Reported with the next step: there may be thousands of small collections.
        if self.tell.is_some() {
            self.progress.namespace = namespace.map(Namespace::to_string).unwrap_or_default();
        }
    }

    pub(super) fn advance(&mut self, count: u64) {
        self.progress.done += count;
        if self.tell.is_some() && self.told.elapsed() >= INTERVAL {
            self.tell();
        }
    }

    /// Ends a phase.
    pub(super) fn end(&mut self) {
        self.tell();
    }

    fn tell(&mut self) {
        if let Some(tell) = &mut self.tell {
            tell(&self.progress);
            self.told = Instant::now();
        }
    }
}
