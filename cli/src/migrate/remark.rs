//! The remark of a plan about something that is not simply copied.

use cairndb::bson::{Document, doc};

/// Its importance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// With it the migration does not begin.
    Blocker,
    /// It cannot be carried; the migration begins only if it is asked to go on without.
    Unsupported,
    /// It is otherwise there.
    Note,
}

impl Level {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Blocker => "blocker",
            Self::Unsupported => "unsupported",
            Self::Note => "note",
        }
    }
}

/// One line of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Remark {
    pub(super) level: Level,
    /// Which collection, sequence or side.
    pub(super) subject: String,
    pub(super) what: String,
    /// The work to do, or that is done.
    pub(super) advice: String,
}

impl Remark {
    pub(super) fn blocker(subject: &str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::of(Level::Blocker, subject, what.into(), advice.into())
    }

    pub(super) fn unsupported(subject: &str, what: impl Into<String>) -> Self {
        let advice = "change it, or continue without it by --skip-unsupported".to_owned();
        Self::of(Level::Unsupported, subject, what.into(), advice)
    }

    pub(super) fn note(subject: &str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::of(Level::Note, subject, what.into(), advice.into())
    }

    fn of(level: Level, subject: &str, what: String, advice: String) -> Self {
        Self { level, subject: subject.to_owned(), what, advice }
    }

    /// The line for people.
    pub(super) fn line(&self) -> String {
        let Self { level, subject, what, advice } = self;
        format!("{}: {subject}: {what}: {advice}", level.name())
    }

    /// The remark in a report.
    pub(super) fn document(&self) -> Document {
        let Self { level, subject, what, advice } = self;
        doc! { "level": level.name(), "subject": subject.as_str(), "what": what.as_str(), "advice": advice.as_str() }
    }
}
