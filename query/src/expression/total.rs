//! An exact sum of integers and doubles.

use bson::Decimal128;

use crate::decimal::{self, Precision};
use crate::numeric::Numeric;

/// A sum of doubles, with a second sum of what each addition lost, so that the order of the numbers hardly matters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Total {
    sum: f64,
    lost: f64,
}

impl Total {
    /// The sum of these [`parts`](Self::parts).
    pub(super) fn of([sum, lost]: [f64; 2]) -> Self {
        Self { sum, lost }
    }

    /// The parts of the sum.
    pub(super) fn parts(self) -> [f64; 2] {
        [self.sum, self.lost]
    }

    /// Adds a double.
    pub(super) fn add(&mut self, value: f64) {
        let sum = self.sum + value;
        // Knuth's two-sum: `sum` and `lost` together are exactly the sum of both numbers, whichever is
        // larger.
        let part = sum - self.sum;
        let lost = (self.sum - (sum - part)) + (value - part);
        self.sum = sum;
        // With an infinity the difference is NaN, and would spoil a sum that has a value.
        if lost.is_finite() {
            self.lost += lost;
        }
    }

    /// Adds another sum.
    pub(super) fn merge(&mut self, other: Self) {
        self.add(other.sum);
        self.lost += other.lost;
    }

    /// Adds an integer by its halves, each of which a double holds exactly.
    pub(super) fn add_integer(&mut self, value: i64) {
        // A double has 53 bits, so an int64 does not fit one, but each half of 32 bits does.
        let low = value & 0xffff_ffff;
        for half in [value - low, low] {
            self.add(Numeric::Int64(half).to_double());
        }
    }

    /// The sum with all 34 digits of a decimal.
    pub(super) fn decimal(self) -> Decimal128 {
        let sum = decimal::from_double(self.sum, Precision::Full);
        if self.sum.is_finite() {
            decimal::add(sum, decimal::from_double(self.lost, Precision::Full))
        } else {
            sum
        }
    }

    /// The sum as a double.
    pub(super) fn value(self) -> f64 {
        if self.sum.is_finite() { self.sum + self.lost } else { self.sum }
    }
}
