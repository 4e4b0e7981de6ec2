//! The naive sequence behind an auto-increment field, in 128 bits, as one thread sees it: what it gives next, and what
//! moves it. Blocks matter, because a conflict or a change loses what is left of one.

use cairndb::bson::{Bson, Document};
use cairndb::{AutoIncrement, Contract, Generated, OnTruncate};

use super::state::{Refusal, refuse};

/// SequoiaDB's numbers for what is rejected.
pub(super) const INVALID: i32 = -6;
pub(super) const EXCEEDED: i32 = -325;
pub(super) const CONFLICT: i32 = -332;
pub(super) const NOT_FOUND: i32 = -333;

/// The wishes for a field, at its creation or by a change; nothing stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Wishes {
    pub(super) increment: Option<i64>,
    pub(super) start: Option<i64>,
    /// Least and greatest value.
    pub(super) limits: Option<(i64, i64)>,
    pub(super) current: Option<i64>,
    /// The size of blocks and reserves.
    pub(super) size: Option<i64>,
    pub(super) cycled: Option<bool>,
    pub(super) contract: Option<Contract>,
    pub(super) generated: Option<Generated>,
    pub(super) on_null: Option<bool>,
    pub(super) on_truncate: Option<OnTruncate>,
    pub(super) from_existing: Option<bool>,
}

/// An auto-increment field.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    pub(super) path: &'static str,
    pub(super) generated: Generated,
    pub(super) on_null: bool,
    pub(super) on_truncate: OnTruncate,
    pub(super) numbers: Numbers,
}

/// The wish of a document for a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Want {
    Value,
    /// It brings a value, which moves the sequence if it is an integer.
    Nothing(Option<i64>),
}

/// A sequence.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Numbers {
    increment: i128,
    start: i128,
    least: i128,
    greatest: i128,
    size: i128,
    cycled: bool,
    contract: Contract,
    /// The last value that is gone, or lies in the block; before the first one, that one.
    used: i128,
    is_new: bool,
    cycles: i32,
    block: Option<Block>,
}

#[derive(Clone, Debug, PartialEq)]
struct Block {
    next: i128,
    last: i128,
    first: i128,
    /// `used`, `is_new` and `cycles` from before the block was acquired.
    origin: (i128, bool, i32),
}

impl Wishes {
    pub(super) fn to_options(&self, path: &str) -> AutoIncrement {
        let mut options = Document::new();
        options.insert("Field", path);
        let mut set = |name: &str, value: Option<Bson>| drop(value.map(|value| options.insert(name, value)));
        set("Increment", self.increment.map(Bson::Int64));
        set("StartValue", self.start.map(Bson::Int64));
        set("MinValue", self.limits.map(|(least, _)| Bson::Int64(least)));
        set("MaxValue", self.limits.map(|(_, greatest)| Bson::Int64(greatest)));
        set("CurrentValue", self.current.map(Bson::Int64));
        set("CacheSize", self.size.map(Bson::Int64));
        set("AcquireSize", self.size.map(Bson::Int64));
        set("Cycled", self.cycled.map(Bson::Boolean));
        set("Contract", self.contract.map(|contract| Bson::String(contract.name().to_owned())));
        set("Generated", self.generated.map(|generated| Bson::String(generated.name().to_owned())));
        set("GenerateOnNull", self.on_null.map(Bson::Boolean));
        set("OnTruncate", self.on_truncate.map(|on_truncate| Bson::String(on_truncate.name().to_owned())));
        set("StartFromExisting", self.from_existing.map(Bson::Boolean));
        AutoIncrement::try_from(options).expect("well-formed options")
    }
}

impl Field {
    pub(super) fn new(path: &'static str, wishes: &Wishes) -> Result<Self, Refusal> {
        Ok(Self {
            path,
            generated: wishes.generated.unwrap_or_default(),
            on_null: wishes.on_null.unwrap_or(false),
            on_truncate: wishes.on_truncate.unwrap_or_default(),
            numbers: Numbers::new(wishes)?,
        })
    }

    pub(super) fn is_gapless(&self) -> bool {
        self.numbers.contract == Contract::Gapless
    }

    pub(super) fn alter(&mut self, wishes: &Wishes) -> Result<(), Refusal> {
        self.numbers.alter(wishes)?;
        self.generated = wishes.generated.unwrap_or(self.generated);
        self.on_null = wishes.on_null.unwrap_or(self.on_null);
        self.on_truncate = wishes.on_truncate.unwrap_or(self.on_truncate);
        Ok(())
    }

    /// The outermost name of the path, and the one below.
    pub(super) fn names(&self) -> (&'static str, Option<&'static str>) {
        self.path.split_once('.').map_or((self.path, None), |(outer, below)| (outer, Some(below)))
    }

    /// The treatment of the document's value.
    pub(super) fn wants(&self, document: &Document) -> Result<Want, Refusal> {
        let (outer, below) = self.names();
        let value = match (document.get(outer), below) {
            (Some(Bson::Document(parent)), Some(below)) => parent.get(below),
            (Some(_), Some(_)) => return refuse(INVALID),
            (value, _) => value,
        };
        let Some(value) = value else { return Ok(Want::Value) };
        if *value == Bson::Null && self.on_null {
            return Ok(Want::Value);
        }
        let integer = value.as_i64().or(value.as_i32().map(i64::from));
        match (self.generated, integer) {
            (Generated::Always, _) => Ok(Want::Value),
            (Generated::Default, _) | (Generated::Strict, Some(_)) => Ok(Want::Nothing(integer)),
            (Generated::AlwaysStrict, _) | (Generated::Strict, None) => refuse(INVALID),
        }
    }
}

impl Numbers {
    fn new(wishes: &Wishes) -> Result<Self, Refusal> {
        let increment = wishes.increment.unwrap_or(1);
        let (start, least, greatest) = if increment > 0 { (1, 1, i64::MAX) } else { (-1, i64::MIN, -1) };
        let (least, greatest) = wishes.limits.unwrap_or((least, greatest));
        let start = wishes.start.unwrap_or(start);
        let numbers = Self {
            increment: increment.into(),
            start: start.into(),
            least: least.into(),
            greatest: greatest.into(),
            size: wishes.size.unwrap_or(1000).into(),
            cycled: wishes.cycled.unwrap_or(false),
            contract: wishes.contract.unwrap_or_default(),
            used: start.into(),
            is_new: true,
            cycles: 0,
            block: None,
        };
        if wishes.current.is_some() { refuse(INVALID) } else { numbers.checked() }
    }

    fn checked(self) -> Result<Self, Refusal> {
        let capacity = (self.greatest - self.least) / self.increment.abs() + 1;
        let is_sound = self.least < self.greatest
            && self.holds(self.start)
            && self.increment != 0
            && self.size <= capacity;
        if is_sound { Ok(self) } else { refuse(INVALID) }
    }

    fn alter(&mut self, wishes: &Wishes) -> Result<(), Refusal> {
        if wishes.from_existing.is_some() {
            return refuse(INVALID);
        }
        let mut altered = self.clone();
        altered.increment = wishes.increment.map_or(self.increment, i128::from);
        altered.start = wishes.start.map_or(self.start, i128::from);
        if let Some((least, greatest)) = wishes.limits {
            (altered.least, altered.greatest) = (least.into(), greatest.into());
        }
        altered.size = wishes.size.map_or(self.size, i128::from);
        altered.cycled = wishes.cycled.unwrap_or(self.cycled);
        altered.contract = wishes.contract.unwrap_or(self.contract);
        if wishes.current.is_some_and(|current| !altered.holds(current.into())) {
            return refuse(INVALID);
        }
        if altered == *self && wishes.current.is_none() {
            return Ok(());
        }
        altered = altered.checked()?;
        altered.block = None;
        if self.cycled && !altered.cycled {
            altered.cycles = 0;
        }
        if altered.is_new && altered.start != self.start {
            altered.used = altered.start;
        }
        if let Some(current) = wishes.current {
            (altered.used, altered.is_new) = (current.into(), false);
        }
        *self = altered;
        Ok(())
    }

    /// As new.
    pub(super) fn restart(&mut self) {
        (self.used, self.is_new, self.cycles, self.block) = (self.start, true, 0, None);
    }

    /// After a clean close: no acquirer holds a block, and what was left of it comes next.
    pub(super) fn reopen(&mut self) {
        let Some(block) = self.block.take() else { return };
        if block.next == block.first {
            (self.used, self.is_new, self.cycles) = block.origin;
        } else {
            self.used = block.next - self.increment;
        }
    }

    pub(super) fn cycles(&self) -> i32 {
        self.cycles
    }

    pub(super) fn increment(&self) -> i128 {
        self.increment
    }

    pub(super) fn contract(&self) -> Contract {
        self.contract
    }

    /// Gives up what is left of the block.
    pub(super) fn give_up(&mut self) {
        self.block = None;
    }

    pub(super) fn take(&mut self) -> Result<i64, Refusal> {
        if self.contract == Contract::Gapless {
            return Ok(narrow(self.acquire(1)?.first));
        }
        if self.block.as_ref().is_none_or(|block| self.is_beyond(block.next, block.last)) {
            self.block = Some(self.acquire(self.size)?);
        }
        let increment = self.increment;
        let block = self.block.as_mut().expect("it was acquired above");
        block.next += increment;
        Ok(narrow(block.next - increment))
    }

    /// Goes on beyond a value that a document brings.
    pub(super) fn announce(&mut self, value: i64) {
        let value = i128::from(value);
        if self.contract == Contract::Gapless {
            return self.move_beyond(value);
        }
        if self.block.is_none() {
            self.block = self.acquire(self.size).ok();
        }
        let Some(block) = self.block.clone() else { return };
        if self.is_beyond(block.next, value) {
            return;
        }
        if self.is_beyond(block.last, value) {
            let next = self.term_up_to(block.next, value) + self.increment;
            self.block = Some(Block { next, ..block });
            return;
        }
        self.block = None;
        self.move_beyond(value);
        self.block = self.acquire(self.size).ok();
    }

    /// As if values up to this one had been drawn, if it lies ahead.
    pub(super) fn move_beyond(&mut self, value: i128) {
        let first = if self.is_new { self.used } else { self.used + self.increment };
        if self.is_used_up() || self.is_beyond(first, value) {
            return;
        }
        let term = self.term_up_to(first, value);
        self.used = if self.is_beyond(term + self.increment, self.limit()) { self.limit() } else { term };
        self.is_new = false;
    }

    fn acquire(&mut self, size: i128) -> Result<Block, Refusal> {
        let origin = (self.used, self.is_new, self.cycles);
        let first = if self.is_used_up() {
            if !self.cycled {
                return refuse(EXCEEDED);
            }
            self.cycles += 1;
            if self.increment > 0 { self.least } else { self.greatest }
        } else if self.is_new {
            self.used
        } else {
            self.used + self.increment
        };
        let mut last = first;
        for _ in 1..size {
            if self.is_beyond(last + self.increment, self.limit()) {
                break;
            }
            last += self.increment;
        }
        (self.used, self.is_new) = (last, false);
        Ok(Block { next: first, last, first, origin })
    }

    /// No value is left before the sequence ends or starts over.
    fn is_used_up(&self) -> bool {
        if self.is_new {
            return !self.holds(self.used);
        }
        let edge = if self.increment > 0 { self.least } else { self.greatest };
        self.is_beyond(self.used + self.increment, self.limit()) || self.is_beyond(edge, self.used)
    }

    /// The last term from `first` on that is not beyond `value`.
    fn term_up_to(&self, first: i128, value: i128) -> i128 {
        first + (value - first) / self.increment * self.increment
    }

    fn holds(&self, value: i128) -> bool {
        (self.least..=self.greatest).contains(&value)
    }

    fn limit(&self) -> i128 {
        if self.increment > 0 { self.greatest } else { self.least }
    }

    fn is_beyond(&self, value: i128, other: i128) -> bool {
        (value - other) * self.increment.signum() > 0
    }
}

/// The document with its values, by path: `_id` first, the others at the end of their level, ascending by name.
pub(super) fn complete(document: &Document, values: &[(&'static str, i64)]) -> Document {
    let value_of =
        |path: &str| values.iter().find(|(own, _)| *own == path).map(|(_, value)| Bson::Int64(*value));
    let mut completed = Document::new();
    if let Some(id) = value_of("_id") {
        completed.insert("_id", id);
    }
    for (name, value) in document {
        if value_of(name).is_some() {
            continue;
        }
        let below: Vec<_> =
            values.iter().filter_map(|(path, value)| Some((path.split_once('.')?, *value))).collect();
        let below: Vec<_> = below.into_iter().filter(|((outer, _), _)| outer == name).collect();
        let mut value = value.clone();
        if let Bson::Document(parent) = &mut value {
            for ((_, below), number) in below {
                parent.remove(below);
                parent.insert(below, number);
            }
        }
        completed.insert(name.clone(), value);
    }
    let mut missing: Vec<(&str, Bson)> = Vec::new();
    for (path, value) in values.iter().filter(|(path, _)| *path != "_id") {
        match path.split_once('.') {
            None => missing.push((path, Bson::Int64(*value))),
            Some((outer, below)) if !document.contains_key(outer) => {
                let mut parent = Document::new();
                parent.insert(below, *value);
                missing.push((outer, Bson::Document(parent)));
            }
            Some(_) => {}
        }
    }
    missing.sort_unstable_by_key(|(name, _)| *name);
    completed.extend(missing.into_iter().map(|(name, value)| (name.to_owned(), value)));
    completed
}

fn narrow(value: i128) -> i64 {
    i64::try_from(value).expect("values lie within 64 bits")
}
