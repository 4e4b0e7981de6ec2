//! The work of stores with a language for it over many documents: a sum for each city, and orders with their parcels.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::Serialize;

use crate::durability::Result;
use crate::indexed::IndexedStore;
use crate::order::Order;
use crate::store::{Seen, expect_seen, report};
use crate::warm::WARM_READS;

/// Documents of a call while the parcels are stored.
const BATCH_PARCELS: usize = 1_000;

/// The parcel of an order, in a collection of its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parcel {
    /// The number of the order.
    pub order: i64,
    /// In grams.
    pub weight: i64,
    /// Its place.
    pub place: String,
}

impl Parcel {
    fn of(n: u64) -> Self {
        let order = i64::try_from(n).unwrap_or(i64::MAX);
        Self { order, weight: 100 + order % 4_900, place: format!("shelf {}", order % 97) }
    }
}

/// The result for the orders of one city.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct City {
    /// The number of them.
    pub orders: i64,
    /// The sum of their numbers.
    pub numbers: i64,
}

/// A store that groups and joins by itself. Its orders have an index on `number` by then.
pub trait PipelineStore: IndexedStore {
    /// The orders and the sum of their numbers, for each city.
    fn group(&self) -> Result<BTreeMap<String, City>>;
    /// Stores parcels, as one commit.
    fn insert_parcels(&mut self, parcels: &[Parcel]) -> Result<()>;
    /// Creates an index on the `order` of parcels.
    fn index_parcels(&mut self) -> Result<()>;
    /// Shows each order with a number below `end` together with its parcel to `seen`, found by the index on the parcels.
    fn join(&self, end: i64, seen: &mut Seen) -> Result<()>;
}

/// The rates are those of orders looked at.
pub(crate) fn perform<S: PipelineStore>(store: &mut S, stored: u64, groups: u64, joined: u64) -> Result<()> {
    let expected = cities(stored);
    let start = Instant::now();
    for _ in 0..groups {
        let found = store.group()?;
        if found != expected {
            return Err(format!("the cities have {found:?}, and not {expected:?}").into());
        }
    }
    report("group", stored * groups, start);
    let joined = joined.min(stored);
    let parcels: Vec<Parcel> = (0..joined).map(Parcel::of).collect();
    for batch in parcels.chunks(BATCH_PARCELS) {
        store.insert_parcels(batch)?;
    }
    store.index_parcels()?;
    for (figure, times) in [("join", 1), ("join_warm", WARM_READS - 1)] {
        let mut seen = Seen::default();
        let start = Instant::now();
        for _ in 0..times {
            store.join(i64::try_from(joined)?, &mut seen)?;
        }
        report(figure, joined * times, start);
        expect_seen(figure, &seen, joined * times)?;
    }
    Ok(())
}

fn cities(stored: u64) -> BTreeMap<String, City> {
    let mut cities: BTreeMap<String, City> = BTreeMap::new();
    for order in (0..stored).map(Order::nth) {
        let city = cities.entry(order.customer.city).or_default();
        city.orders += 1;
        city.numbers += order.number;
    }
    cities
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_is_of_one_city() {
        let cities = cities(1_000);
        assert_eq!(cities.len(), 6);
        assert_eq!(cities.values().map(|city| city.orders).sum::<i64>(), 1_000);
        assert_eq!(cities.values().map(|city| city.numbers).sum::<i64>(), 999 * 1_000 / 2);
    }
}
