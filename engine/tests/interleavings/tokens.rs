//! Calls with one token beside each other: they happen once.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use cairndb::bson::doc;
use cairndb::{PlantedFault, TRANSIENT_TRANSACTION_ERROR};

use crate::ROUNDS;
use crate::world::{Findings, World, beside, finds, holds, is_done};

/// Three threads make the same calls with the same tokens: inserts, updates, updates of several documents, and transactions.
fn calls_with_the_same_tokens(fault: PlantedFault) -> Findings {
    let world = World::new(fault);
    world.filled("things", [1, 2]);
    let firsts = Arc::new(AtomicI32::new(0));
    let call = || {
        let firsts = Arc::clone(&firsts);
        world.thread(move |world| {
            let things = world.things();
            let add = |was_replayed: bool| firsts.fetch_add(i32::from(!was_replayed), Ordering::Relaxed);
            for round in 0..ROUNDS {
                // They ascend, so that the first thread that comes with one finds it above all others.
                let token = |call: u8| format!("{round:04} {call}");
                let insert = things.insert_one(doc! { "round": round }).exactly_once(token(1)).run();
                if let Ok(inserted) = &insert {
                    add(inserted.was_replayed);
                }
                is_done(world, insert);
                let one = doc! { "$inc": { "a": 1 } };
                let update = things.update_one(doc! { "_id": 1 }, one.clone()).exactly_once(token(2)).run();
                if let Ok(updated) = &update {
                    add(updated.was_replayed);
                }
                is_done(world, update);
                let mut session = world.client.start_session().run().expect("an open client");
                session.start_transaction().run().expect("none is in progress");
                let staged = things.update_one(doc! { "_id": 2 }, one).session(&mut session).run();
                let mut commit = || session.commit_transaction().exactly_once(token(3)).run();
                match staged.and_then(|_| commit()) {
                    Ok(()) => drop(add(false)),
                    Err(error) => {
                        let is_expected =
                            error.code() == Some(256) || error.contains_label(TRANSIENT_TRANSACTION_ERROR);
                        world.expect(is_expected, || error.to_string());
                    }
                }
            }
        })
    };
    beside(vec![call(), call(), call()]);
    let stored = world.documents();
    let counted = |id: &str| stored.get(id).and_then(|found| found.get_i32("a").ok()).unwrap_or_default();
    let [updates, transactions] = ["1", "2"].map(|id| counted(id) - 1);
    let inserts = i32::try_from(stored.len()).unwrap_or_default() - 2;
    world.expect((inserts, updates) == (ROUNDS, ROUNDS), || {
        format!("{inserts} inserts and {updates} updates of {ROUNDS} each were done")
    });
    world.expect(transactions <= ROUNDS, || format!("{transactions} transactions of {ROUNDS} were done"));
    let firsts = firsts.load(Ordering::Relaxed);
    let done = inserts + updates + transactions;
    world.expect(firsts == done, || format!("{firsts} calls were the first, and {done} were done"));
    let report = world.client.verify().expect("verified");
    world.expect(report.is_clean(), || format!("{report:?}"));
    world.findings()
}

#[test]
fn a_token_is_spent_once() {
    holds(calls_with_the_same_tokens);
}

#[test]
fn planted_tokens_that_are_not_looked_up_under_the_latch_are_found() {
    finds(PlantedFault::TokensNotLookedUp, calls_with_the_same_tokens);
}

#[test]
fn planted_tokens_that_are_not_entered_are_found() {
    finds(PlantedFault::TokensNotEntered, calls_with_the_same_tokens);
}
