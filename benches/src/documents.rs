//! The documents that are inserted: about 160 bytes, nested, the same in every run.

use cairndb::bson::{RawDocumentBuf, rawdoc};
use serde::{Deserialize, Serialize};

/// An order with a nested address, as a serde struct.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// Which one it is.
    pub number: i64,
    /// The customer.
    pub customer: String,
    /// Its place.
    pub address: Address,
    /// The price.
    pub price: f64,
    /// Whether it was paid.
    pub paid: bool,
}

/// The place where an order goes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Address {
    /// Street and house.
    pub street: String,
    /// Town.
    pub city: String,
}

/// The order of that number.
pub fn order(number: u64) -> Order {
    let mixed = mix(number);
    Order {
        number: number.cast_signed(),
        customer: format!("customer-{:08x}", mixed >> 32),
        address: Address { street: format!("{} Canal Street", mixed % 997), city: "Rotterdam".to_owned() },
        price: f64::from((mixed % 100_000) as u32) / 100.0,
        paid: mixed.is_multiple_of(3),
    }
}

/// The same order as ready BSON without an `_id`.
pub fn raw_order(number: u64) -> RawDocumentBuf {
    let Order { number, customer, address, price, paid } = order(number);
    rawdoc! {
        "number": number,
        "customer": customer,
        "address": { "street": address.street, "city": address.city },
        "price": price,
        "paid": paid,
    }
}

/// The same order with a number in random order as its `_id`, and again as the unique field `code`.
pub fn raw_order_with_code(number: u64) -> RawDocumentBuf {
    let mut order = raw_order(number);
    order.append(cairndb::bson::cstr!("code"), mix(number).cast_signed());
    order
}

/// A bijection of 64-bit numbers that looks random (the finalizer of `splitmix64`).
pub fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
