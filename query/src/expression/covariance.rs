//! The covariance of pairs of numbers, for windows: parts of a window are summed up apart, and joined.

use bson::{RawBson, RawBsonRef};

use crate::decimal;
use crate::numeric::Numeric;

/// Count, means, and sum of the products of distances from the means.
///
/// Numbers are doubles, and decimals as soon as one of them is a decimal.
#[derive(Clone, Debug)]
pub(crate) struct Covariance {
    count: f64,
    means: [Numeric; 2],
    products: Numeric,
    /// The sum of the numbers that are not finite: an infinity or NaN. Pairs with them do not count.
    unbounded: Option<Numeric>,
}

impl Default for Covariance {
    fn default() -> Self {
        let zero = Numeric::Double(0.0);
        Self { count: 0.0, means: [zero, zero], products: zero, unbounded: None }
    }
}

impl Covariance {
    /// The covariance of one pair, or of none if `pair` is not an array of two numbers.
    pub(crate) fn of(pair: RawBsonRef<'_>) -> Self {
        let numbers =
            pair.as_array().map(|array| crate::value::elements(array).map(Numeric::of).collect::<Vec<_>>());
        let Some([Some(one), Some(other)]) = numbers.as_deref() else { return Self::default() };
        let numbers = [widened(*one), widened(*other)];
        // An infinity would make all means infinite: such a pair is kept apart.
        let mut unbounded = numbers.into_iter().filter(|number| !number.to_double().is_finite());
        if let Some(first) = unbounded.next() {
            let sum = unbounded.next().map_or(first, |second| first.plus(second));
            return Self { unbounded: Some(sum), ..Self::default() };
        }
        Self { count: 1.0, means: numbers, ..Self::default() }
    }

    /// Adds the pairs of another part.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.unbounded = match (self.unbounded, other.unbounded) {
            (Some(one), Some(another)) => Some(one.plus(another)),
            (one, another) => one.or(another),
        };
        if other.count == 0.0 {
            return;
        }
        if self.count == 0.0 {
            (self.count, self.means, self.products) = (other.count, other.means, other.products);
            return;
        }
        // Chan's formula for two parts, as for deviations.
        let count = self.count + other.count;
        let [mean, other_mean] = self.means;
        let [left, right] = other.means;
        let (left, right) = (left.minus(mean), right.minus(other_mean));
        let share = Numeric::Double(other.count / count);
        self.means = [mean.plus(left.times(share)), other_mean.plus(right.times(share))];
        let weight = Numeric::Double(self.count * other.count / count);
        self.products = self.products.plus(other.products).plus(left.times(right).times(weight));
        self.count = count;
    }

    /// The covariance if the pairs are the whole population: null if there are none.
    pub(crate) fn population(&self) -> RawBson {
        // MongoDB looks at a single pair first: whatever else is there, it varies with nothing.
        if self.count > 0.0 && self.count < 2.0 { RawBson::Double(0.0) } else { self.divided_by(self.count) }
    }

    /// The covariance if the pairs are a sample: null of fewer than two.
    pub(crate) fn sample(&self) -> RawBson {
        self.divided_by(self.count - 1.0)
    }

    fn divided_by(&self, count: f64) -> RawBson {
        if count <= 0.0 {
            return RawBson::Null;
        }
        match self.unbounded.unwrap_or(self.products) {
            Numeric::Decimal(products) => {
                RawBson::Decimal128(decimal::divide(products, Numeric::Double(count).to_decimal()))
            }
            Numeric::Int32(_) | Numeric::Int64(_) | Numeric::Double(_) => {
                RawBson::Double(self.unbounded.unwrap_or(self.products).to_double() / count)
            }
        }
    }
}

/// A number as a double, unless it is a decimal.
fn widened(number: Numeric) -> Numeric {
    if matches!(number, Numeric::Decimal(_)) { number } else { Numeric::Double(number.to_double()) }
}
