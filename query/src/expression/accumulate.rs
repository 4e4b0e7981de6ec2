//! Accumulators as operators, over the elements of one array or over several arguments; and the sums that `$group`
//! shares with them.
//!
//! `$sum`, `$avg` and the deviations ignore values that are not numbers; `$max` and `$min` ignore null and
//! missing ones.

use bson::spec::BinarySubtype;
use bson::{Binary, RawArrayBuf, RawBson, RawBsonRef};

use crate::decimal;
use crate::expression::condition::compare_values;
use crate::expression::error::Error;
use crate::expression::node::Arguments;
use crate::expression::total::Total;
use crate::expression::value::Value;
use crate::numeric::Numeric;

pub(super) fn sum<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let mut sum = Sum::default();
    for value in operands(arguments)? {
        sum.add(value.or_null());
    }
    Ok(sum.value())
}

pub(super) fn average<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let mut sum = Sum::default();
    for value in operands(arguments)? {
        sum.add(value.or_null());
    }
    Ok(sum.average())
}

pub(super) fn greatest<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let values = operands(arguments)?.into_iter().filter(|value| !value.is_nullish());
    // Of equal values the first is kept, whatever their types are.
    let is_better =
        |next: &Value<'_>, kept: &Value<'_>| compare_values(next, kept, arguments.collation()).is_gt();
    let first = values.reduce(|kept, next| if is_better(&next, &kept) { next } else { kept });
    Ok(first.unwrap_or(Value::NULL))
}

pub(super) fn least<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    let values = operands(arguments)?.into_iter().filter(|value| !value.is_nullish());
    let is_better =
        |next: &Value<'_>, kept: &Value<'_>| compare_values(next, kept, arguments.collation()).is_lt();
    let first = values.reduce(|kept, next| if is_better(&next, &kept) { next } else { kept });
    Ok(first.unwrap_or(Value::NULL))
}

pub(super) fn deviation_of_population<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    Ok(spread(arguments)?.of_population())
}

pub(super) fn deviation_of_sample<'d>(arguments: &Arguments<'_, 'd>) -> Result<Value<'d>, Error> {
    Ok(spread(arguments)?.of_sample())
}

/// The values to accumulate: the elements of the only argument if it is an array, otherwise the arguments.
fn operands<'d>(arguments: &Arguments<'_, 'd>) -> Result<Vec<Value<'d>>, Error> {
    let values = arguments.values().collect::<Result<Vec<_>, _>>()?;
    Ok(match values.as_slice() {
        // One array means its elements; with several arguments an array is one value, and no number.
        [only] => only.elements().unwrap_or(values),
        [] | [_, _, ..] => values,
    })
}

fn spread(arguments: &Arguments<'_, '_>) -> Result<Spread, Error> {
    let mut spread = Spread::default();
    for value in operands(arguments)? {
        spread.add(value.or_null());
    }
    Ok(spread)
}

/// A sum of numbers. Its type is the widest type among them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sum {
    count: i64,
    /// The exact sum of the integers.
    integers: i128,
    doubles: Total,
    decimals: Option<bson::Decimal128>,
    has_long: bool,
    has_double: bool,
}

impl Sum {
    /// Adds a number, and ignores every other value.
    pub(crate) fn add(&mut self, value: RawBsonRef<'_>) {
        let Some(number) = Numeric::of(value) else { return };
        self.count += 1;
        match number {
            // A sum in 128 bits cannot overflow in practice, so integers are exact in every order.
            Numeric::Int32(value) => self.integers += i128::from(value),
            Numeric::Int64(value) => {
                self.has_long = true;
                self.integers += i128::from(value);
            }
            Numeric::Double(value) => {
                self.has_double = true;
                self.doubles.add(value);
            }
            Numeric::Decimal(value) => {
                self.decimals = Some(self.decimals.map_or(value, |sum| decimal::add(sum, value)));
            }
        }
    }

    /// Adds the numbers of another sum.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.integers += other.integers;
        self.doubles.merge(other.doubles);
        self.decimals = match (self.decimals, other.decimals) {
            (Some(one), Some(another)) => Some(decimal::add(one, another)),
            (one, another) => one.or(another),
        };
        self.has_long |= other.has_long;
        self.has_double |= other.has_double;
    }

    /// Appends the parts of the sum, so that [`restore`](Self::restore) gives it back as it is.
    pub(crate) fn save(&self, saved: &mut RawArrayBuf) {
        saved.push(RawBson::Int64(self.count));
        let integers = self.integers.to_le_bytes().to_vec();
        saved.push(RawBson::Binary(Binary { subtype: BinarySubtype::Generic, bytes: integers }));
        // The rounding errors of the additions are saved too, or the sum would depend on where it was saved.
        for part in self.doubles.parts() {
            saved.push(RawBson::Double(part));
        }
        saved.push(self.decimals.map_or(RawBson::Null, RawBson::Decimal128));
        saved.push(RawBson::Boolean(self.has_long));
        saved.push(RawBson::Boolean(self.has_double));
    }

    /// The sum of these parts. Returns `None` if they are none of a sum.
    pub(crate) fn restore(saved: &mut dyn Iterator<Item = RawBsonRef<'_>>) -> Option<Self> {
        // No more than documents can add up to, so that more can be added.
        let count = saved.next()?.as_i64().filter(|count| (0..1 << 60).contains(count))?;
        let integers = i128::from_le_bytes(saved.next()?.as_binary()?.bytes.try_into().ok()?);
        let integers = Some(integers).filter(|sum| sum.unsigned_abs() < 1 << 124)?;
        let doubles = Total::of([saved.next()?.as_f64()?, saved.next()?.as_f64()?]);
        let decimals = saved.next()?;
        let decimals = if let RawBsonRef::Decimal128(sum) = decimals { Some(sum) } else { None };
        let (has_long, has_double) = (saved.next()?.as_bool()?, saved.next()?.as_bool()?);
        Some(Self { count, integers, doubles, decimals, has_long, has_double })
    }

    /// The sum: 0 if no number was added.
    pub(crate) fn total(&self) -> RawBson {
        self.value().into_raw().unwrap_or(RawBson::Null)
    }

    /// The average: null if no number was added.
    pub(crate) fn mean(&self) -> RawBson {
        self.average().into_raw().unwrap_or(RawBson::Null)
    }

    fn value<'d>(&self) -> Value<'d> {
        if let Some(decimals) = self.decimals {
            return Value::decimal(self.decimal(decimals));
        }
        match i64::try_from(self.integers) {
            // The type is that of the widest number, and wider if the sum does not fit: a sum of int32 may be
            // an int64, and one of int64 a double.
            Ok(sum) if !self.has_double && self.has_long => Value::long(sum),
            Ok(sum) if !self.has_double => Value::integer(sum),
            Ok(_) | Err(_) => Value::double(self.double()),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "an average of so many numbers is rounded anyway")]
    fn average<'d>(&self) -> Value<'d> {
        match (self.count, self.decimals) {
            (0, _) => Value::NULL,
            (count, Some(decimals)) => {
                Value::decimal(decimal::divide(self.decimal(decimals), decimal::from_integer(count)))
            }
            // The average of numbers that are not decimals is a double, of integers too.
            (count, None) => Value::double(self.double() / count as f64),
        }
    }

    /// The sum of all numbers except decimals, with what each addition lost.
    fn others(&self) -> Total {
        // Integers join the doubles as late as possible, because only they are exact.
        let mut total = self.doubles;
        match i64::try_from(self.integers) {
            Ok(sum) => total.add_integer(sum),
            #[expect(clippy::cast_precision_loss, reason = "so large a sum is a double to MongoDB too")]
            Err(_) => total.add(self.integers as f64),
        }
        total
    }

    fn double(&self) -> f64 {
        self.others().value()
    }

    fn decimal(&self, decimals: bson::Decimal128) -> bson::Decimal128 {
        decimal::add(decimals, self.others().decimal())
    }
}

/// Count, mean, and sum of squared distances from the mean, updated with each number.
///
/// A sum of squares minus the square of a sum would lose its digits where the numbers are large and close together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spread {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Spread {
    /// Adds a number, and ignores every other value.
    pub(crate) fn add(&mut self, value: RawBsonRef<'_>) {
        let Some(number) = Numeric::of(value) else { return };
        let number = number.to_double();
        // Welford's recurrence: the two factors are distances from the mean before and after this number.
        let distance = number - self.mean;
        self.count += 1.0;
        self.mean += distance / self.count;
        self.squares += distance * (number - self.mean);
    }

    /// Adds the numbers of another spread.
    pub(crate) fn merge(&mut self, other: &Self) {
        if other.count == 0.0 {
            return;
        }
        if self.count == 0.0 {
            self.clone_from(other);
            return;
        }
        // Chan's formula for two parts: the distance of their means counts for both.
        let count = self.count + other.count;
        let distance = other.mean - self.mean;
        self.mean += distance * other.count / count;
        self.squares += other.squares + distance * distance * self.count * other.count / count;
        self.count = count;
    }

    /// Appends the parts of the spread, so that [`restore`](Self::restore) gives it back as it is.
    pub(crate) fn save(&self, saved: &mut RawArrayBuf) {
        // The doubles themselves, and not what they add up to: no digit is rounded on the way.
        for part in [self.count, self.mean, self.squares] {
            saved.push(RawBson::Double(part));
        }
    }

    /// The spread of these parts. Returns `None` if they are none of a spread.
    pub(crate) fn restore(saved: &mut dyn Iterator<Item = RawBsonRef<'_>>) -> Option<Self> {
        let mut part = || saved.next()?.as_f64();
        Some(Self { count: part()?, mean: part()?, squares: part()? })
    }

    /// The standard deviation if the numbers are the whole population: null if there are none.
    pub(crate) fn population(&self) -> RawBson {
        self.of_population().into_raw().unwrap_or(RawBson::Null)
    }

    /// The standard deviation if the numbers are a sample: null of fewer than two.
    pub(crate) fn sample(&self) -> RawBson {
        self.of_sample().into_raw().unwrap_or(RawBson::Null)
    }

    fn of_population<'d>(&self) -> Value<'d> {
        if self.count == 0.0 { Value::NULL } else { self.deviation(self.count) }
    }

    fn of_sample<'d>(&self) -> Value<'d> {
        if self.count < 2.0 { Value::NULL } else { self.deviation(self.count - 1.0) }
    }

    fn deviation<'d>(&self, count: f64) -> Value<'d> {
        let variance = self.squares / count;
        // An infinity or NaN among the numbers has no deviation, which MongoDB answers with null.
        if variance.is_finite() { Value::double(variance.sqrt()) } else { Value::NULL }
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, bson};

    use crate::expression::cases::{check, decimal};

    #[test]
    fn sums_pass_over_what_is_no_number() {
        check(bson!({ "$sum": "$list" }), bson!(6));
        check(bson!({ "$sum": [1, "x", null, 2.5] }), bson!(3.5));
        check(bson!({ "$sum": [[1, 2], 3] }), bson!(3));
        check(bson!({ "$sum": "$missing" }), bson!(0));
        check(bson!({ "$sum": [] }), bson!(0));
        check(bson!({ "$sum": [1, 2_i64] }), bson!(3_i64));
        check(bson!({ "$sum": [(i32::MAX), 1] }), bson!(2_147_483_648_i64));
        check(bson!({ "$sum": [(i64::MAX), 1] }), bson!(9_223_372_036_854_775_808.0));
        check(bson!({ "$sum": [(i64::MAX), 1, -1] }), bson!(i64::MAX));
        check(bson!({ "$sum": [1e100, 1.0, -1e100] }), bson!(1.0));
        check(bson!({ "$sum": [(decimal("1.10")), 2, 0.5] }), decimal("3.60"));
        check(bson!({ "$sum": [(f64::INFINITY), 1] }), bson!(f64::INFINITY));
    }

    #[test]
    fn averages_are_doubles_or_decimals() {
        check(bson!({ "$avg": "$list" }), bson!(2.0));
        check(bson!({ "$avg": [1, 2, "x"] }), bson!(1.5));
        check(bson!({ "$avg": [] }), Bson::Null);
        check(bson!({ "$avg": "$missing" }), Bson::Null);
        check(bson!({ "$avg": [(decimal("1")), 2] }), decimal("1.5"));
    }

    #[test]
    fn the_greatest_and_least_are_of_any_type() {
        check(bson!({ "$max": "$list" }), bson!(3));
        check(bson!({ "$min": "$list" }), bson!(1));
        check(bson!({ "$max": [1, "a", null] }), bson!("a"));
        check(bson!({ "$min": [null, "$missing"] }), Bson::Null);
        check(bson!({ "$max": [[1, 5], 3] }), bson!([1, 5]));
        check(bson!({ "$min": [1, 1.0] }), bson!(1));
    }

    #[test]
    fn deviations_need_numbers() {
        check(bson!({ "$stdDevPop": [1, 3] }), bson!(1.0));
        check(bson!({ "$stdDevSamp": [1, 3, 5] }), bson!(2.0));
        check(bson!({ "$stdDevPop": [7] }), bson!(0.0));
        check(bson!({ "$stdDevSamp": [7] }), Bson::Null);
        check(bson!({ "$stdDevPop": ["x"] }), Bson::Null);
        check(bson!({ "$stdDevPop": [(decimal("1")), 3, "x"] }), bson!(1.0));
    }
}
