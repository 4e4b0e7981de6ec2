//! The document of the comparison: an order of a shop, nested as such documents are, about 200 bytes
//! of BSON. The n-th order is a pure function of n, so that every store gets the same ones.

use serde::{Deserialize, Serialize};

use crate::random::Random;

const NAMES: [&str; 8] = [
    "Ada Brook",
    "Ben Okafor",
    "Chiara Lindt",
    "Dmitri Hale",
    "Eun Park",
    "Fay Nkosi",
    "Gil Roth",
    "Hana Ito",
];
const CITIES: [&str; 6] = ["Oslo", "Lagos", "Quito", "Hanoi", "Porto", "Perth"];
const STATES: [&str; 3] = ["open", "paid", "sent"];

/// An order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// Ascending, and the only field that no two orders share.
    pub number: i64,
    /// Milliseconds since 1970.
    pub placed: i64,
    /// Its place.
    pub state: String,
    /// The customer.
    pub customer: Customer,
    /// The ordered goods: one or two lines.
    pub lines: Vec<Line>,
}

/// The customer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Customer {
    /// First and last name.
    pub name: String,
    /// The place where the parcel goes.
    pub city: String,
}

/// One line of an order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The article's number.
    pub article: String,
    /// The number.
    pub count: i32,
    /// For one.
    pub price: f64,
}

impl Order {
    /// The n-th order.
    pub fn nth(n: u64) -> Self {
        let mut random = Random::new(n);
        let customer = Customer { name: pick(&mut random, &NAMES), city: pick(&mut random, &CITIES) };
        let state = pick(&mut random, &STATES);
        let lines = (0..=random.below(2)).map(|_| Line::random(&mut random)).collect();
        let number = i64::try_from(n).unwrap_or(i64::MAX);
        Self { number, placed: 1_700_000_000_000 + number % 10_000_000_000, state, customer, lines }
    }
}

impl Line {
    fn random(random: &mut Random) -> Self {
        let article = format!("A-{:06}", random.below(1_000_000));
        let cents = u32::try_from(random.below(10_000)).unwrap_or(0);
        Self { article, count: 1 + i32::from(random.below(4) == 0), price: f64::from(cents) / 100.0 }
    }
}

/// Orders asked for by two fields, one of them nested: `{number: {$gt: above}, "customer.city": city}`. No index serves
/// it; it finds one in a hundred.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The number is greater.
    pub above: i64,
    /// The place where the parcel goes.
    pub city: &'static str,
}

impl Wanted {
    /// One in a hundred of the first `count` orders: of the last six hundredths, those to one of the six cities.
    pub fn among(count: u64) -> Self {
        let above = count - count * CITIES.len() as u64 / 100;
        let [city, ..] = CITIES;
        // Numbers start at 0, so the last of those left out is one less.
        Self { above: i64::try_from(above).unwrap_or(i64::MAX) - 1, city }
    }

    /// Whether an order is asked for.
    pub fn matches(&self, order: &Order) -> bool {
        order.number > self.above && order.customer.city == self.city
    }
}

fn pick(random: &mut Random, words: &[&str]) -> String {
    words.get(random.below(words.len())).copied().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_a_function_of_its_number() {
        assert_eq!(Order::nth(42), Order::nth(42));
        assert_ne!(Order::nth(42), Order::nth(43));
    }

    #[test]
    fn orders_are_150_to_260_bytes_of_bson() {
        for n in 0..1_000 {
            let bytes = bson::serialize_to_vec(&Order::nth(n)).unwrap();
            assert!((150..=260).contains(&bytes.len()), "order {n} has {} bytes", bytes.len());
        }
    }

    #[test]
    fn one_in_a_hundred_orders_is_wanted() {
        let wanted = Wanted::among(100_000);
        let matching = (0..100_000).filter(|n| wanted.matches(&Order::nth(*n))).count();
        assert!((900..=1_100).contains(&matching), "{matching} of 100,000 are wanted");
    }

    #[test]
    fn bson_and_json_give_the_order_back() {
        let order = Order::nth(9);
        let bytes = bson::serialize_to_vec(&order).unwrap();
        assert_eq!(bson::deserialize_from_slice::<Order>(&bytes).unwrap(), order);
        let text = serde_json::to_string(&order).unwrap();
        assert_eq!(serde_json::from_str::<Order>(&text).unwrap(), order);
    }
}
