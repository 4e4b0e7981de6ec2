//! Calls with tokens, against the same calls without.

use std::time::Duration;

use cairndb::Token;
use cairndb::bson::{Document, cstr, doc};
use cairndb_benches::documents::mix;
use cairndb_benches::measure::{speed_ratio, time};
use cairndb_benches::ours::Ours;

use crate::insert_into;
use crate::rounds::{DOCUMENTS, raw_orders};

/// Each insert with a token of its own.
pub(crate) fn insert_exactly_once() -> f64 {
    insert_with(|ours, _| ours.client().token())
}

/// Each insert with a text in no order, as the idempotency keys of web requests are. Such a token is looked up.
pub(crate) fn insert_exactly_once_random() -> f64 {
    insert_with(|_, number| format!("{:016x}{:016x}", mix(number), mix(!number)).into())
}

fn insert_with(token: impl Fn(&Ours, u64) -> Token) -> f64 {
    let documents = raw_orders(DOCUMENTS);
    speed_ratio(
        || {
            let ours = Ours::create();
            let orders = ours.orders();
            time(|| {
                for (number, document) in (0..).zip(&documents) {
                    let token = token(&ours, number);
                    orders.insert_one(document).exactly_once(token).run().expect("stored");
                }
            })
        },
        || insert_into(&Ours::create(), &documents),
    )
}

/// One update of each document, by its id, with a token of its own.
pub(crate) fn update_exactly_once() -> f64 {
    let mut documents = raw_orders(DOCUMENTS);
    for (id, document) in (0_i64..).zip(&mut documents) {
        document.append(cstr!("_id"), id);
    }
    let update = |with_tokens: bool| -> Duration {
        let ours = Ours::create();
        insert_into(&ours, &documents);
        let orders = ours.orders();
        // The caller has his filters; making them is not the work.
        let filters: Vec<Document> = (0_i64..).take(documents.len()).map(|id| doc! { "_id": id }).collect();
        time(|| {
            for filter in filters {
                let update = orders.update_one(filter, doc! { "$inc": { "number": 1 } });
                let update = if with_tokens { update.exactly_once(ours.client().token()) } else { update };
                assert_eq!(update.run().expect("updated").matched_count, 1);
            }
        })
    };
    speed_ratio(|| update(true), || update(false))
}
