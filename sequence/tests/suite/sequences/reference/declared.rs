//! The attributes of the reference, with the rules between them.

use cairndb_sequence::attributes::{Contract, Options};

use crate::sequences::reference::Refused;

const GREATEST: i128 = i64::MAX as i128;
const LEAST: i128 = i64::MIN as i128;

/// The attributes that a sequence was declared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Declared {
    pub(crate) increment: i128,
    pub(crate) start: i128,
    pub(crate) min: i128,
    pub(crate) max: i128,
    pub(crate) cache: i128,
    pub(crate) acquire: i128,
    pub(crate) cycled: bool,
    pub(crate) contract: Contract,
}

impl Declared {
    pub(crate) fn create(options: &Options) -> Result<Self, Refused> {
        let descends = options.increment.is_some_and(|increment| increment < 0);
        let or = |given: Option<i64>, ascending: i128, descending: i128| {
            given.map_or(if descends { descending } else { ascending }, i128::from)
        };
        let declared = Self {
            increment: or(options.increment, 1, 1),
            start: or(options.start_value, 1, -1),
            min: or(options.min_value, 1, LEAST),
            max: or(options.max_value, GREATEST, -1),
            cache: or(options.cache_size, 1000, 1000),
            acquire: or(options.acquire_size, 1000, 1000),
            cycled: options.cycled.unwrap_or(false),
            contract: options.contract.unwrap_or_default(),
        };
        declared.check()?;
        Ok(declared)
    }

    pub(super) fn altered(&self, options: &Options) -> Self {
        let or = |given: Option<i64>, own: i128| given.map_or(own, i128::from);
        Self {
            increment: or(options.increment, self.increment),
            start: or(options.start_value, self.start),
            min: or(options.min_value, self.min),
            max: or(options.max_value, self.max),
            cache: or(options.cache_size, self.cache),
            acquire: or(options.acquire_size, self.acquire),
            cycled: options.cycled.unwrap_or(self.cycled),
            contract: options.contract.unwrap_or(self.contract),
        }
    }

    pub(super) fn check(&self) -> Result<(), Refused> {
        let size = 1..=2_147_483_647;
        let rules = [
            ("MinValue", self.min < self.max),
            ("StartValue", self.holds(self.start)),
            ("Increment", self.increment != 0 && size.contains(&self.increment.abs())),
            ("CacheSize", size.contains(&self.cache)),
            ("AcquireSize", size.contains(&self.acquire)),
            ("AcquireSize", self.acquire <= self.cache),
        ];
        if let Some((option, _)) = rules.into_iter().find(|(_, holds)| !holds) {
            return Err(Refused::Range(option));
        }
        let values = (self.max - self.min) / self.increment.abs() + 1;
        if self.cache > values { Err(Refused::Range("CacheSize")) } else { Ok(()) }
    }

    pub(crate) fn holds(&self, value: i128) -> bool {
        self.min <= value && value <= self.max
    }

    /// Positive if `a` is beyond `b`.
    pub(crate) fn beyond(&self, a: i128, b: i128) -> bool {
        if self.increment > 0 { a > b } else { a < b }
    }

    pub(crate) fn limit(&self) -> i128 {
        if self.increment > 0 { self.max } else { self.min }
    }

    pub(super) fn edge(&self) -> i128 {
        if self.increment > 0 { self.min } else { self.max }
    }
}
