//! The declaration of a sequence, and all checks of it.
//!
//! Names, defaults and ranges are SequoiaDB's. A caller gives [`Options`]; checked options become
//! [`Attributes`], which never break a rule. All sums and products are in 128 bits.

use crate::error::{SequenceError, shorten};

/// The largest `Increment`, `CacheSize` and `AcquireSize`.
const SIZE_MAX: i64 = 2_147_483_647;
const CACHE_SIZE_DEFAULT: i64 = 1_000;
const ACQUIRE_SIZE_DEFAULT: i64 = 1_000;

/// The promise of a sequence about the order and completeness of its values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Contract {
    /// Unique values in blocks: the fastest. A value may become visible after a larger one, and a crash
    /// leaves a gap.
    #[default]
    Fast,
    /// Values become visible in their order. Writers that number by the sequence take turns.
    Ordered,
    /// No value is ever missing among surviving documents: value and document are one write. Writers take
    /// turns.
    Gapless,
}

impl Contract {
    /// Every contract with its name.
    pub const ALL: [Self; 3] = [Self::Fast, Self::Ordered, Self::Gapless];

    /// The name, as options and snapshots spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Ordered => "ordered",
            Self::Gapless => "gapless",
        }
    }
}

/// The value of an option, with the types that sequences distinguish.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OptionValue<'a> {
    /// A 32-bit or 64-bit integer.
    Integer(i64),
    /// A boolean.
    Boolean(bool),
    /// A string.
    Text(&'a str),
    /// Any other type, by name.
    Other(&'static str),
}

/// The options of a call. An absent option keeps its value, or has its default in a new sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Distance from one value to the next: not 0, at most 2147483647 either way. Default 1.
    pub increment: Option<i64>,
    /// The first value. Default 1, or -1 if the increment is negative.
    pub start_value: Option<i64>,
    /// The least value. Default 1, or the least 64-bit integer if the increment is negative.
    pub min_value: Option<i64>,
    /// The greatest value. Default the greatest 64-bit integer, or -1 if the increment is negative.
    pub max_value: Option<i64>,
    /// The value from which the sequence continues. Only when a sequence is changed.
    pub current_value: Option<i64>,
    /// The number of values that one durable write reserves. Default 1000.
    pub cache_size: Option<i64>,
    /// The number of values that an acquirer draws from the reserve at once. Default 1000.
    pub acquire_size: Option<i64>,
    /// Whether to start over at the other end when the values are used up. Default false.
    pub cycled: Option<bool>,
    /// The promise about order and completeness. Default [`Contract::Fast`].
    pub contract: Option<Contract>,
    /// All values up to this one count as used. Only when a sequence is created. By default none do.
    pub used_up_to: Option<i64>,
}

/// A sequence's attributes: checked, and consistent with each other.
///
/// ```
/// use cairndb_sequence::attributes::{Attributes, Options};
///
/// let countdown = Attributes::create(&Options { increment: Some(-1), ..Options::default() })?;
/// assert_eq!((countdown.start_value(), countdown.limit(), countdown.edge()), (-1, i64::MIN, -1));
/// # Ok::<(), cairndb_sequence::error::SequenceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    increment: i64,
    start_value: i64,
    min_value: i64,
    max_value: i64,
    cache_size: i64,
    acquire_size: i64,
    cycled: bool,
    contract: Contract,
}

impl Options {
    /// Sets one option by its name in documents. `of` names what the option was given for, for messages.
    ///
    /// # Errors
    /// [`SequenceError::UnknownOption`], [`SequenceError::FixedOption`] for an option that only the engine
    /// sets, [`SequenceError::OptionType`], and [`SequenceError::OptionRange`] for an unknown contract.
    pub fn set(&mut self, name: &str, value: OptionValue<'_>, of: &'static str) -> Result<(), SequenceError> {
        match name {
            "Increment" => self.increment = Some(integer("Increment", value)?),
            "StartValue" => self.start_value = Some(integer("StartValue", value)?),
            "MinValue" => self.min_value = Some(integer("MinValue", value)?),
            "MaxValue" => self.max_value = Some(integer("MaxValue", value)?),
            "CurrentValue" => self.current_value = Some(integer("CurrentValue", value)?),
            "CacheSize" => self.cache_size = Some(integer("CacheSize", value)?),
            "AcquireSize" => self.acquire_size = Some(integer("AcquireSize", value)?),
            "Cycled" => self.cycled = Some(boolean("Cycled", value)?),
            "Contract" => self.contract = Some(contract(value)?),
            "UsedUpTo" => self.used_up_to = Some(integer("UsedUpTo", value)?),
            _ => return Err(unknown(name, of)),
        }
        Ok(())
    }

    /// Whether no option is given.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Attributes {
    /// The attributes of a new sequence.
    ///
    /// # Errors
    /// The first rule that the options break; `CurrentValue` cannot be given.
    pub fn create(options: &Options) -> Result<Self, SequenceError> {
        if options.current_value.is_some() {
            return Err(SequenceError::FixedOption {
                option: "CurrentValue",
                place: "when a sequence is created",
            });
        }
        // SequoiaDB's defaults mirror each other: a descending sequence starts at -1 and goes down.
        let descending = options.increment.is_some_and(|increment| increment < 0);
        let (start, min, max) = if descending { (-1, i64::MIN, -1) } else { (1, 1, i64::MAX) };
        let attributes = Self {
            increment: options.increment.unwrap_or(1),
            start_value: options.start_value.unwrap_or(start),
            min_value: options.min_value.unwrap_or(min),
            max_value: options.max_value.unwrap_or(max),
            cache_size: options.cache_size.unwrap_or(CACHE_SIZE_DEFAULT),
            acquire_size: options.acquire_size.unwrap_or(ACQUIRE_SIZE_DEFAULT),
            cycled: options.cycled.unwrap_or(false),
            contract: options.contract.unwrap_or_default(),
        };
        attributes.check()?;
        Ok(attributes)
    }

    /// The attributes after a change. Returns `None` if it changes none of them. `UsedUpTo` cannot be given.
    pub(crate) fn altered(&self, options: &Options) -> Result<Option<Self>, SequenceError> {
        // It says where a sequence begins, and this one has begun.
        if options.used_up_to.is_some() {
            return Err(SequenceError::FixedOption {
                option: "UsedUpTo",
                place: "when a sequence is changed",
            });
        }
        let altered = Self {
            increment: options.increment.unwrap_or(self.increment),
            start_value: options.start_value.unwrap_or(self.start_value),
            min_value: options.min_value.unwrap_or(self.min_value),
            max_value: options.max_value.unwrap_or(self.max_value),
            cache_size: options.cache_size.unwrap_or(self.cache_size),
            acquire_size: options.acquire_size.unwrap_or(self.acquire_size),
            cycled: options.cycled.unwrap_or(self.cycled),
            contract: options.contract.unwrap_or(self.contract),
        };
        // Against the new limits, which the same call may set.
        if let Some(value) = options.current_value {
            altered.check_within("CurrentValue", value)?;
        }
        // Stored attributes that a later version would reject stay valid as long as a change does not touch
        // them.
        if altered == *self {
            return Ok(None);
        }
        altered.check()?;
        Ok(Some(altered))
    }

    /// Distance from one value to the next.
    pub fn increment(&self) -> i64 {
        self.increment
    }

    /// The first value.
    pub fn start_value(&self) -> i64 {
        self.start_value
    }

    /// The least value.
    pub fn min_value(&self) -> i64 {
        self.min_value
    }

    /// The greatest value.
    pub fn max_value(&self) -> i64 {
        self.max_value
    }

    /// The number of values that one durable write reserves.
    pub fn cache_size(&self) -> i64 {
        self.cache_size
    }

    /// The number of values that an acquirer draws at once.
    pub fn acquire_size(&self) -> i64 {
        self.acquire_size
    }

    /// Whether the sequence starts over when its values are used up.
    pub fn is_cycled(&self) -> bool {
        self.cycled
    }

    /// The promise of the sequence.
    pub fn contract(&self) -> Contract {
        self.contract
    }

    /// The last value in the sequence's direction: the greatest if it ascends, else the least.
    pub fn limit(&self) -> i64 {
        if self.increment > 0 { self.max_value } else { self.min_value }
    }

    /// The value at which the sequence starts over: the end opposite to [`limit`](Self::limit).
    pub fn edge(&self) -> i64 {
        if self.increment > 0 { self.min_value } else { self.max_value }
    }

    /// Whether a value is from `MinValue` to `MaxValue`.
    pub(crate) fn contains(&self, value: i64) -> bool {
        (self.min_value..=self.max_value).contains(&value)
    }

    pub(crate) fn check_within(&self, option: &'static str, value: i64) -> Result<(), SequenceError> {
        if self.contains(value) {
            return Ok(());
        }
        let expected = format!("within MinValue {} and MaxValue {}", self.min_value, self.max_value);
        Err(SequenceError::OptionRange { option, expected, value: value.to_string() })
    }

    /// The number of values from `MinValue` to `MaxValue` in steps of the increment.
    pub(crate) fn capacity(&self) -> i128 {
        // In 128 bits: the distance between the ends of the 64-bit integers does not fit 64 bits.
        let range = i128::from(self.max_value) - i128::from(self.min_value);
        range / i128::from(self.increment).abs() + 1
    }

    /// Checks the rules between attributes.
    fn check(&self) -> Result<(), SequenceError> {
        // Only the first broken rule is reported, and each check may rely on those before it: the capacity
        // divides by the increment, which is not 0 by then.
        if self.min_value >= self.max_value {
            let expected = format!("less than MaxValue {}", self.max_value);
            return Err(out_of_range("MinValue", expected, self.min_value));
        }
        self.check_within("StartValue", self.start_value)?;
        if self.increment == 0 || self.increment.unsigned_abs() > SIZE_MAX.unsigned_abs() {
            let expected = format!("within -{SIZE_MAX} and {SIZE_MAX} and not 0");
            return Err(out_of_range("Increment", expected, self.increment));
        }
        check_size("CacheSize", self.cache_size)?;
        check_size("AcquireSize", self.acquire_size)?;
        if self.acquire_size > self.cache_size {
            let expected = format!("at most CacheSize {}", self.cache_size);
            return Err(out_of_range("AcquireSize", expected, self.acquire_size));
        }
        // A reserve larger than all values would start over within itself.
        let capacity = self.capacity();
        if i128::from(self.cache_size) > capacity {
            let expected = format!("at most the {capacity} values from MinValue to MaxValue");
            return Err(out_of_range("CacheSize", expected, self.cache_size));
        }
        Ok(())
    }
}

fn check_size(option: &'static str, size: i64) -> Result<(), SequenceError> {
    if (1..=SIZE_MAX).contains(&size) {
        return Ok(());
    }
    Err(out_of_range(option, format!("within 1 and {SIZE_MAX}"), size))
}

fn out_of_range(option: &'static str, expected: String, value: i64) -> SequenceError {
    SequenceError::OptionRange { option, expected, value: value.to_string() }
}

/// The integer of an option that must be one.
///
/// # Errors
/// [`SequenceError::OptionType`] for a value of any other type: a double is rejected, whole or not.
pub fn integer(option: &'static str, value: OptionValue<'_>) -> Result<i64, SequenceError> {
    match value {
        OptionValue::Integer(value) => Ok(value),
        OptionValue::Boolean(_) | OptionValue::Text(_) | OptionValue::Other(_) => {
            Err(wrong_type(option, "a 32-bit or 64-bit integer", value))
        }
    }
}

pub(crate) fn boolean(option: &'static str, value: OptionValue<'_>) -> Result<bool, SequenceError> {
    match value {
        OptionValue::Boolean(value) => Ok(value),
        OptionValue::Integer(_) | OptionValue::Text(_) | OptionValue::Other(_) => {
            Err(wrong_type(option, "a boolean", value))
        }
    }
}

/// The string of an option that must be one.
///
/// # Errors
/// [`SequenceError::OptionType`] for a value of any other type.
pub fn text<'a>(option: &'static str, value: OptionValue<'a>) -> Result<&'a str, SequenceError> {
    match value {
        OptionValue::Text(value) => Ok(value),
        OptionValue::Integer(_) | OptionValue::Boolean(_) | OptionValue::Other(_) => {
            Err(wrong_type(option, "a string", value))
        }
    }
}

/// The choice that the text of an option names.
pub(crate) fn choice<T: Copy>(
    option: &'static str,
    value: OptionValue<'_>,
    choices: &[(&'static str, T)],
) -> Result<T, SequenceError> {
    // Compared exactly, as everywhere in options: "Fast" is a mistake, not "fast".
    let given = text(option, value)?;
    choices.iter().find(|(name, _)| *name == given).map(|&(_, choice)| choice).ok_or_else(|| {
        let names: Vec<String> = choices.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        SequenceError::OptionRange {
            option,
            expected: format!("one of {}", names.join(", ")),
            value: format!("\"{}\"", shorten(given)),
        }
    })
}

pub(crate) fn unknown(name: &str, of: &'static str) -> SequenceError {
    // SequoiaDB has these names, but only the engine sets them. A message of their own says more than
    // "unknown".
    let fixed = ["Name", "CycledCount", "Initial", "Internal", "Version", "ID", "CLUniqueID", "_id"];
    match fixed.into_iter().find(|option| *option == name) {
        Some(option) => SequenceError::FixedOption { option, place: "by an option" },
        None => SequenceError::UnknownOption { option: shorten(name), of },
    }
}

fn contract(value: OptionValue<'_>) -> Result<Contract, SequenceError> {
    choice("Contract", value, &Contract::ALL.map(|contract| (contract.name(), contract)))
}

/// The error for an option whose value does not have the type `expected`.
pub fn wrong_type(option: &'static str, expected: &'static str, value: OptionValue<'_>) -> SequenceError {
    let found = match value {
        OptionValue::Integer(value) => format!("the integer {value}"),
        OptionValue::Boolean(value) => format!("the boolean {value}"),
        OptionValue::Text(value) => format!("the string \"{}\"", shorten(value)),
        OptionValue::Other(name) => name.to_owned(),
    };
    SequenceError::OptionType { option, expected, found }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(set: impl FnOnce(&mut Options)) -> Options {
        let mut options = Options::default();
        set(&mut options);
        options
    }

    /// The name of the option that is out of range.
    fn refused(options: &Options) -> Option<&'static str> {
        match Attributes::create(options) {
            Err(SequenceError::OptionRange { option, .. }) => Some(option),
            Err(other) => panic!("{other}"),
            Ok(_) => None,
        }
    }

    #[track_caller]
    fn check_defaults(increment: Option<i64>, start: i64, min: i64, max: i64) {
        let attributes = Attributes::create(&Options { increment, ..Options::default() }).unwrap();
        assert_eq!(attributes.increment(), increment.unwrap_or(1));
        assert_eq!(
            (attributes.start_value(), attributes.min_value(), attributes.max_value()),
            (start, min, max)
        );
        assert_eq!((attributes.cache_size(), attributes.acquire_size()), (1000, 1000));
        assert_eq!((attributes.is_cycled(), attributes.contract()), (false, Contract::Fast));
    }

    #[test]
    fn defaults_depend_on_the_sign_of_the_increment() {
        check_defaults(None, 1, 1, i64::MAX);
        check_defaults(Some(7), 1, 1, i64::MAX);
        check_defaults(Some(-7), -1, i64::MIN, -1);
    }

    #[test]
    fn a_given_value_stands_beside_the_defaults_of_the_sign() {
        let options = Options { increment: Some(-1), max_value: Some(50), ..Options::default() };
        let attributes = Attributes::create(&options).unwrap();
        assert_eq!(
            (attributes.start_value(), attributes.min_value(), attributes.max_value()),
            (-1, i64::MIN, 50)
        );
        assert_eq!((attributes.limit(), attributes.edge()), (i64::MIN, 50));
    }

    #[test]
    fn a_changed_sign_does_not_bring_other_defaults() {
        let attributes = Attributes::create(&Options::default()).unwrap();
        let turned = attributes.altered(&with(|options| options.increment = Some(-1))).unwrap().unwrap();
        assert_eq!((turned.start_value(), turned.min_value(), turned.max_value()), (1, 1, i64::MAX));
    }

    #[test]
    fn each_attribute_has_its_range() {
        #[track_caller]
        fn check(expected: Option<&'static str>, set: impl FnOnce(&mut Options)) {
            assert_eq!(refused(&with(set)), expected);
        }
        let one = |options: &mut Options| (options.cache_size, options.acquire_size) = (Some(1), Some(1));
        for increment in [1, -1, 2_147_483_647, -2_147_483_647] {
            check(None, |options| options.increment = Some(increment));
        }
        for increment in [0, 2_147_483_648, -2_147_483_648, i64::MIN, i64::MAX] {
            check(Some("Increment"), |options| options.increment = Some(increment));
            check(Some("Increment"), |options| {
                one(options);
                options.increment = Some(increment);
            });
        }
        for size in [0, -1, 2_147_483_648, i64::MIN, i64::MAX] {
            check(Some("CacheSize"), |options| options.cache_size = Some(size));
            check(Some("AcquireSize"), |options| options.acquire_size = Some(size));
        }
        check(None, |options| options.cache_size = Some(2_147_483_647));
        check(None, one);
        check(Some("StartValue"), |options| options.start_value = Some(0));
        check(Some("StartValue"), |options| {
            (options.max_value, options.start_value) = (Some(1000), Some(1001));
        });
        check(None, |options| (options.min_value, options.max_value) = (Some(i64::MIN), Some(i64::MAX)));
        check(None, |options| options.start_value = Some(i64::MAX));
    }

    #[test]
    fn least_and_greatest_differ() {
        let range = |min, max| Options {
            min_value: Some(min),
            max_value: Some(max),
            start_value: Some(min),
            cache_size: Some(1),
            acquire_size: Some(1),
            ..Options::default()
        };
        assert_eq!(refused(&range(5, 5)), Some("MinValue"));
        assert_eq!(refused(&range(6, 5)), Some("MinValue"));
        assert_eq!(refused(&range(5, 6)), None);
    }

    #[test]
    fn a_block_is_at_most_a_reserve() {
        let sizes = |cache, acquire| {
            with(|options| {
                (options.cache_size, options.acquire_size) = (Some(cache), Some(acquire));
            })
        };
        assert_eq!(refused(&sizes(111, 111)), None);
        assert_eq!(refused(&sizes(111, 112)), Some("AcquireSize"));
    }

    /// Counted from the least value to the greatest, wherever the sequence starts.
    #[test]
    fn a_reserve_is_at_most_all_values() {
        #[track_caller]
        fn check(increment: i64, min: i64, max: i64, most: i64) {
            let sized = |cache| Options {
                increment: Some(increment),
                min_value: Some(min),
                max_value: Some(max),
                start_value: Some(max),
                cache_size: Some(cache),
                acquire_size: Some(1),
                ..Options::default()
            };
            assert_eq!(refused(&sized(most)), None);
            assert_eq!(refused(&sized(most + 1)), Some("CacheSize"));
        }
        check(1, 1, 10, 10);
        check(-1, 1, 10, 10);
        check(3, 1, 10, 4);
        check(3, 1, 9, 3);
        check(100, 1, 10, 1);
        check(-3, -2_147_483_647, 2_147_483_647, 1_431_655_765);
        check(2_147_483_647, i64::MIN, i64::MIN + 2_147_483_646, 1);
        check(-2, -2_147_483_647, 2_147_483_647, 2_147_483_647);
        check(1, i64::MIN, i64::MAX, 2_147_483_647);
    }

    #[test]
    fn rules_are_reported_in_their_order() {
        let mut options = Options {
            min_value: Some(10),
            max_value: Some(5),
            start_value: Some(50),
            increment: Some(0),
            cache_size: Some(0),
            acquire_size: Some(0),
            ..Options::default()
        };
        assert_eq!(refused(&options), Some("MinValue"));
        options.min_value = Some(0);
        assert_eq!(refused(&options), Some("StartValue"));
        options.start_value = Some(0);
        assert_eq!(refused(&options), Some("Increment"));
        options.increment = Some(1);
        assert_eq!(refused(&options), Some("CacheSize"));
        options.cache_size = Some(7);
        assert_eq!(refused(&options), Some("AcquireSize"));
        options.acquire_size = Some(8);
        assert_eq!(refused(&options), Some("AcquireSize"), "beyond CacheSize");
        options.acquire_size = Some(7);
        assert_eq!(refused(&options), Some("CacheSize"), "beyond the six values");
        options.cache_size = Some(6);
        options.acquire_size = Some(6);
        assert_eq!(refused(&options), None);
    }

    #[test]
    fn a_current_value_is_checked_first_and_never_at_creation() {
        let attributes = Attributes::create(&Options::default()).unwrap();
        let change = Options { current_value: Some(0), increment: Some(0), ..Options::default() };
        let refused = attributes.altered(&change).unwrap_err();
        assert!(matches!(refused, SequenceError::OptionRange { option: "CurrentValue", .. }), "{refused}");
        let refused = Attributes::create(&with(|options| options.current_value = Some(1))).unwrap_err();
        assert!(matches!(refused, SequenceError::FixedOption { option: "CurrentValue", .. }), "{refused}");
    }

    #[test]
    fn what_changes_nothing_is_not_checked() {
        let attributes = Attributes::create(&Options::default()).unwrap();
        assert_eq!(attributes.altered(&Options::default()), Ok(None));
        assert_eq!(attributes.altered(&with(|options| options.cache_size = Some(1000))), Ok(None));
    }

    #[test]
    fn integers_of_both_widths_and_nothing_else() {
        let integers =
            ["Increment", "StartValue", "MinValue", "MaxValue", "CurrentValue", "CacheSize", "AcquireSize"];
        let others = [
            OptionValue::Boolean(true),
            OptionValue::Text("1"),
            OptionValue::Other("a double"),
            OptionValue::Other("null"),
        ];
        for name in integers {
            let mut options = Options::default();
            assert_eq!(options.set(name, OptionValue::Integer(7), "a sequence"), Ok(()), "{name}");
            assert!(!options.is_empty(), "{name}");
            for value in others {
                let refused = options.set(name, value, "a sequence").unwrap_err();
                assert_eq!((refused.code(), refused.sequoia_code()), (14, -6), "{name}: {refused}");
            }
        }
        let refused = Options::default().set("Cycled", OptionValue::Integer(1), "a sequence").unwrap_err();
        assert_eq!(refused.to_string(), "Cycled must be a boolean, not the integer 1");
    }

    #[test]
    fn options_are_known_fixed_or_unknown() {
        let mut options = Options::default();
        assert_eq!(options.set("Cycled", OptionValue::Boolean(true), "a sequence"), Ok(()));
        assert_eq!(options.set("Contract", OptionValue::Text("gapless"), "a sequence"), Ok(()));
        assert_eq!((options.cycled, options.contract), (Some(true), Some(Contract::Gapless)));
        for fixed in ["Name", "CycledCount", "Initial", "Internal", "Version", "ID", "CLUniqueID", "_id"] {
            let refused = options.set(fixed, OptionValue::Integer(1), "a sequence").unwrap_err();
            assert_eq!(refused.to_string(), format!("{fixed} cannot be set by an option"));
        }
        for unknown in ["Cycle", "increment", "Generated", ""] {
            let refused = options.set(unknown, OptionValue::Integer(1), "a sequence").unwrap_err();
            assert_eq!(refused.to_string(), format!("\"{unknown}\" is not an option of a sequence"));
        }
        let refused = options.set("Contract", OptionValue::Text("loose"), "a sequence").unwrap_err();
        let expected = "Contract must be one of \"fast\", \"ordered\", \"gapless\", not \"loose\"";
        assert_eq!(refused.to_string(), expected);
    }
}
