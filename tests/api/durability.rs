//! Write concerns, tickets, and the sync in the background.

use std::thread;
use std::time::{Duration, Instant};

use cairndb::bson::{Document, doc};
use cairndb::{
    Acknowledgment, Client, Collection, Durability, ErrorKind, IndexModel, RetryableWrite, SequenceOptions,
    WriteConcern,
};
use cairndb_tests::race::{pause, race};
use cairndb_tests::scratch::{Scratch, small, things};

use crate::refused;

const HOUR: Duration = Duration::from_secs(3600);

/// A client whose background sync comes at the latest after a second.
fn slow_to_sync(scratch: &Scratch) -> Client {
    scratch.open_with(small().durability(Durability::Buffered { sync_interval: Duration::from_secs(1) }))
}

fn with_nodes(w: Acknowledgment) -> WriteConcern {
    let mut concern = WriteConcern::default();
    concern.w = Some(w);
    concern
}

#[test]
fn a_journaled_write_is_durable_when_it_returns() {
    let scratch = Scratch::new();
    let client = slow_to_sync(&scratch);
    things(&client).insert_one(doc! {}).write_concern(WriteConcern::journaled()).run().unwrap();
    assert!(client.durable_seq() >= client.written_seq().unwrap());
    things(&client).insert_many([doc! {}, doc! {}]).write_concern(WriteConcern::journaled()).run().unwrap();
    assert!(client.durable_seq() >= client.written_seq().unwrap());
    things(&client).delete_many(doc! {}).write_concern(WriteConcern::journaled()).run().unwrap();
    assert!(client.durable_seq() >= client.written_seq().unwrap());
}

#[test]
fn a_journaled_client_syncs_every_write_but_buffered_ones() {
    let scratch = Scratch::new();
    let client = scratch.open_with(small().durability(Durability::Journaled));
    things(&client).insert_one(doc! {}).run().unwrap();
    assert!(client.durable_seq() >= client.written_seq().unwrap());
    things(&client).replace_one(doc! {}, doc! { "a": 1 }).run().unwrap();
    assert!(client.durable_seq() >= client.written_seq().unwrap());
}

/// Whether a write by a client that syncs late was on stable storage when it returned. One of several must be found
/// unsynced, because the background syncs one of them at most.
#[track_caller]
fn is_synced(write: impl Fn(&Client)) -> bool {
    let scratch = Scratch::new();
    let client = slow_to_sync(&scratch);
    things(&client).insert_one(doc! {}).run().expect("stored");
    client.sync().expect("synced");
    (0..20).all(|_| {
        write(&client);
        client.durable_seq() >= client.written_seq().expect("a number")
    })
}

/// Calls that find nothing left to do in a collection with `{ _id: 1, a: 1 }`.
const IDLE_CALLS: [fn(&Collection<Document>, WriteConcern); 7] = [
    |things, concern| {
        let (filter, update) = (doc! { "_id": 1 }, doc! { "$set": { "a": 1 } });
        assert_eq!(
            things.update_one(filter, update).write_concern(concern).run().expect("done").modified_count,
            0
        );
    },
    |things, concern| {
        let update = doc! { "$set": { "a": 1 } };
        let updated =
            things.update_many(doc! { "_id": 1 }, update).write_concern(concern).run().expect("done");
        assert_eq!((updated.matched_count, updated.modified_count), (1, 0));
    },
    |things, concern| {
        let (filter, update) = (doc! { "_id": 2 }, doc! { "$set": { "a": 2 } });
        assert_eq!(
            things.update_one(filter, update).write_concern(concern).run().expect("done").matched_count,
            0
        );
    },
    |things, concern| {
        let (filter, update) = (doc! { "_id": 1 }, doc! { "$setOnInsert": { "a": 2 } });
        let upserted =
            things.update_one(filter, update).upsert(true).write_concern(concern).run().expect("done");
        assert_eq!(upserted.upserted_id, None);
    },
    |things, concern| {
        assert_eq!(
            things.delete_one(doc! { "_id": 2 }).write_concern(concern).run().expect("done").deleted_count,
            0
        );
    },
    |things, concern| {
        assert_eq!(
            things.delete_many(doc! { "_id": 2 }).write_concern(concern).run().expect("done").deleted_count,
            0
        );
    },
    |things, concern| {
        let found = things.find_one_and_delete(doc! { "_id": 2 }).write_concern(concern).run().expect("done");
        assert_eq!(found, None);
    },
];

/// The answer is true because of a write of another call, which may not be synced yet.
#[test]
fn a_journaled_call_that_finds_nothing_to_do_waits_for_what_it_saw() {
    let journaled = WriteConcern::journaled;
    // The unsynced writes, each time.
    let write = |client: &Client| {
        let others = client.database("app").collection::<Document>("others");
        others.insert_one(doc! {}).run().unwrap();
    };
    for (number, call) in IDLE_CALLS.into_iter().enumerate() {
        let synced = is_synced(|client| {
            let (filter, update) = (doc! { "_id": 1 }, doc! { "$set": { "a": 1 } });
            things(client).update_one(filter, update).upsert(true).run().unwrap();
            write(client);
            call(&things(client), journaled());
        });
        assert!(synced, "call {number}");
    }
    assert!(is_synced(|client| {
        write(client);
        let absent = client.database("app").collection::<Document>("absent");
        absent.delete_one(doc! {}).write_concern(journaled()).run().unwrap();
    }));
    assert!(is_synced(|client| {
        write(client);
        client.database("absent").drop().run().unwrap();
    }));
    assert!(is_synced(|client| {
        write(client);
        let by_id = IndexModel::builder().keys(doc! { "_id": 1 }).build();
        things(client).create_index(by_id).run().unwrap();
    }));
}

/// As MongoDB's `writeConcernMajorityJournalDefault` has it.
#[test]
fn the_majority_means_journaled_unless_j_says_no() {
    let insert = |concern: WriteConcern| {
        is_synced(|client| {
            things(client).insert_one(doc! {}).write_concern(concern.clone()).run().unwrap();
        })
    };
    assert!(insert(WriteConcern::majority()));
    let mut unsynced = WriteConcern::majority();
    unsynced.journal = Some(false);
    assert!(!insert(unsynced));
    assert!(!insert(with_nodes(Acknowledgment::Nodes(1))));
    assert!(!insert(WriteConcern::default()));
    let delete = |client: &Client| {
        things(client).insert_one(doc! {}).run().unwrap();
        things(client).delete_one(doc! {}).write_concern(WriteConcern::majority()).run().unwrap();
    };
    assert!(is_synced(delete));
}

#[test]
fn commands_read_the_same_write_concern() {
    let insert = |concern: Document| {
        is_synced(|client| {
            let command = doc! { "insert": "things", "documents": [{}], "writeConcern": concern.clone() };
            client.database("test").run_command(command).run().unwrap();
        })
    };
    assert!(insert(doc! { "w": "majority" }));
    assert!(insert(doc! { "w": "majority", "wtimeout": 100 }));
    assert!(insert(doc! { "w": "majority", "fsync": false }), "it counts as absent");
    assert!(insert(doc! { "w": 1, "j": true }));
    assert!(insert(doc! { "j": false, "fsync": true }));
    assert!(!insert(doc! { "w": "majority", "j": false }));
    assert!(!insert(doc! { "w": 1 }));
    assert!(!insert(doc! {}));
    let scratch = Scratch::new();
    let both = doc! { "insert": "a", "documents": [{}], "writeConcern": { "j": true, "fsync": true } };
    refused(scratch.open().database("test").run_command(both).run(), 9, "fsync and j");
}

#[test]
fn a_ticket_stands_for_the_writes_before_it() {
    let scratch = Scratch::new();
    let client = slow_to_sync(&scratch);
    things(&client).insert_one(doc! {}).run().unwrap();
    let ticket = client.durability_ticket().unwrap();
    things(&client).insert_one(doc! {}).run().unwrap();
    ticket.wait().unwrap();
    assert!(ticket.is_durable() && ticket.clone().is_durable());
    ticket.wait().unwrap();
    client.sync().unwrap();
    assert!(client.durability_ticket().unwrap().is_durable());
}

#[test]
fn tickets_are_ordered_and_waiting_for_a_while_causes_no_sync() {
    let start = Instant::now();
    let (_scratch, client, things, session, first, second) = loop {
        let scratch = Scratch::new();
        let opening = Instant::now();
        let client = slow_to_sync(&scratch);
        let things = things(&client);
        things.insert_one(doc! { "_id": 1 }).run().expect("stored");
        let first = client.durability_ticket().expect("a ticket");
        client.sync().expect("synced");
        assert!(first <= client.durable_through() && first.wait_for(Duration::ZERO));
        let mut session = client.start_session().run().expect("started");
        session.start_transaction().run().expect("started");
        things.insert_one(doc! { "_id": 2 }).session(&mut session).run().expect("staged");
        assert!(session.durability_ticket().expect("a ticket") == first);
        session.commit_transaction().run().expect("committed");
        let second = session.durability_ticket().expect("a ticket");
        let is_behind = second > first && second > client.durable_through();
        let began = Instant::now();
        let has_waited = !second.wait_for(Duration::from_millis(50)) && began.elapsed().as_millis() >= 50;
        let is_still_behind = second > client.durable_through();
        // From a second after the opening on the background syncs, which is too early on a busy machine.
        if opening.elapsed() < Duration::from_secs(1) {
            assert!(is_behind && has_waited);
            assert!(is_still_behind, "waiting for a while has synced");
            break (scratch, client, things, session, first, second);
        }
        assert!(start.elapsed() < Duration::from_secs(60), "the background always syncs before");
    };
    // Another thread syncs, and wakes it; without end is allowed.
    thread::scope(|scope| {
        let waiting = scope.spawn(|| second.wait_for(Duration::MAX));
        client.sync().expect("synced");
        assert!(waiting.join().expect("no panic"));
    });
    let other = Client::in_memory().expect("opened");
    let foreign = other.durability_ticket().expect("a ticket");
    assert!(foreign != first && foreign.partial_cmp(&first).is_none());
    // Also when the client is closed: all is durable then.
    things.insert_one(doc! { "_id": 3 }).run().expect("stored");
    let last = client.durability_ticket().expect("a ticket");
    drop((things, session));
    client.close().expect("closed");
    assert!(last.wait_for(Duration::ZERO));
}

#[test]
fn the_background_makes_writes_durable() {
    let scratch = Scratch::new();
    let options = Durability::Buffered { sync_interval: Duration::from_millis(5) };
    let client = scratch.open_with(small().durability(options));
    things(&client).insert_one(doc! {}).run().unwrap();
    let ticket = client.durability_ticket().unwrap();
    let started = Instant::now();
    while !ticket.is_durable() {
        assert!(started.elapsed() < Duration::from_secs(30), "nothing was synced");
        pause();
    }
}

#[test]
fn intervals_out_of_range_are_refused() {
    let second = Duration::from_secs(1);
    for bad in [Duration::ZERO, Duration::from_micros(999), Duration::from_millis(1001), HOUR] {
        for (durability, named) in [
            (Durability::Buffered { sync_interval: bad }, "sync_interval of"),
            (Durability::Delayed { write_interval: second, sync_interval: bad }, "sync_interval of"),
            (Durability::Delayed { write_interval: bad, sync_interval: second }, "write_interval of"),
        ] {
            let scratch = Scratch::new();
            let error = small().durability(durability).open(scratch.path()).expect_err("refused");
            assert!(matches!(error.kind(), ErrorKind::InvalidArgument { .. }), "{error:?}");
            assert!(error.to_string().contains(named), "{error}");
            assert!(!scratch.path().exists());
        }
    }
}

/// A client whose thread syncs late, and hands the log over as often as that.
fn delayed(scratch: &Scratch, write_interval: Duration) -> Client {
    let sync_interval = Duration::from_secs(1);
    scratch.open_with(small().durability(Durability::Delayed { write_interval, sync_interval }))
}

/// The documents that are left if the process dies now.
fn after_death(scratch: &Scratch) -> Vec<i32> {
    let copy = scratch.killed();
    let client = copy.open();
    let stored = things(&client).find(doc! {}).sort(doc! { "_id": 1 }).run().expect("readable");
    let ids = stored.map(|document| document.expect("readable").get_i32("_id").expect("a number")).collect();
    assert!(client.verify().expect("a report").is_clean());
    ids
}

#[test]
fn a_write_that_waits_for_the_system_takes_every_delayed_one_before_it_along() {
    for stronger in [WriteConcern::buffered(), WriteConcern::journaled(), WriteConcern::majority()] {
        let scratch = Scratch::new();
        let client = delayed(&scratch, Duration::from_secs(1));
        for id in 0..100 {
            things(&client).insert_one(doc! { "_id": id }).run().unwrap();
        }
        things(&client).insert_one(doc! { "_id": 100 }).write_concern(stronger).run().unwrap();
        assert_eq!(after_death(&scratch), (0..=100).collect::<Vec<_>>());
    }
}

/// Calls that make the document 1, and are answered from what is there when they come again.
const REPEATED_CALLS: [fn(&Client, WriteConcern); 6] = [
    |client, concern| {
        let things = things(client);
        let insert = things.insert_one(doc! { "_id": 1 }).write_concern(concern);
        insert.exactly_once("one").run().expect("done");
    },
    |client, concern| {
        let things = things(client);
        let insert = things.insert_many([doc! { "_id": 1 }]).write_concern(concern);
        insert.exactly_once("many").run().expect("done");
    },
    |client, concern| {
        let mut session = client.start_session().run().expect("begun");
        let transaction = session.start_transaction().write_concern(concern).exactly_once("transaction");
        let done = transaction.and_run(|session| {
            things(client).insert_one(doc! { "_id": 1 }).session(&mut *session).run().map(drop)
        });
        done.expect("done");
    },
    |client, concern| {
        let mut command = doc! { "insert": "things", "documents": [{ "_id": 1 }] };
        command
            .extend(concern.journal.map(|journal| ("writeConcern".to_owned(), doc! { "j": journal }.into())));
        let write = RetryableWrite::new([1; 16], [2; 16], 1);
        client.database("test").run_command(command).retryable(write).run().expect("done");
    },
    |client, concern| {
        let things = things(client);
        let update = things.update_one(doc! { "_id": 1 }, doc! { "$set": { "a": 1 } });
        update.upsert(true).write_concern(concern).run().expect("done");
    },
    |client, concern| {
        let mut session = client.start_session().run().expect("begun");
        session.start_transaction().run().expect("begun");
        let things = things(client);
        let upsert = things.update_one(doc! { "_id": 1 }, doc! { "$set": { "a": 1 } }).upsert(true);
        upsert.session(&mut session).run().expect("done");
        session.commit_transaction().run().expect("done");
        session.commit_transaction().write_concern(concern).run().expect("done");
    },
];

/// Another call wrote it, and waited for nothing; or this one did, and it got no further then.
#[test]
fn what_an_answer_rests_on_is_as_safe_as_its_caller_asks_for() {
    for (number, call) in REPEATED_CALLS.into_iter().enumerate() {
        let scratch = Scratch::new();
        let client = delayed(&scratch, Duration::from_secs(1));
        things(&client).create_index(IndexModel::builder().keys(doc! { "a": 1 }).build()).run().unwrap();
        call(&client, WriteConcern::default());
        call(&client, WriteConcern::buffered());
        assert_eq!(after_death(&scratch), [1], "call {number}");
    }
}

#[test]
fn what_a_death_takes_of_delayed_writes_is_an_end() {
    let scratch = Scratch::new();
    let client = delayed(&scratch, Duration::from_secs(1));
    client.sync().unwrap();
    let mut was_lost = false;
    for round in 0..50 {
        let before = things(&client).count_documents(doc! {}).run().unwrap();
        let ids = (0..20).map(|id| doc! { "_id": round * 20 + id });
        things(&client).insert_many(ids).run().unwrap();
        let left = after_death(&scratch);
        assert!(left.iter().copied().eq(0..i32::try_from(left.len()).unwrap()), "{left:?}");
        was_lost |= left.len() as u64 == before;
        if was_lost {
            break;
        }
        client.sync().unwrap();
    }
    // It is a level of its own: otherwise each write would be there.
    assert!(was_lost, "every delayed write was with the system at once");
}

/// Before it is synced: that comes after a second at the earliest.
#[test]
fn a_thread_hands_delayed_writes_to_the_system() {
    let scratch = Scratch::new();
    let client = delayed(&scratch, Duration::from_millis(1));
    let started = Instant::now();
    for id in 0.. {
        client.sync().unwrap();
        things(&client).insert_one(doc! { "_id": id }).run().unwrap();
        let ticket = client.durability_ticket().unwrap();
        let is_there = after_death(&scratch).contains(&id);
        if is_there && !ticket.is_durable() {
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "nothing was handed over");
    }
}

#[test]
fn closing_and_dropping_lose_no_delayed_write() {
    let scratch = Scratch::new();
    let client = delayed(&scratch, Duration::from_secs(1));
    things(&client).insert_one(doc! { "_id": 1 }).run().unwrap();
    client.close().unwrap();
    let client = delayed(&scratch, Duration::from_secs(1));
    assert_eq!(things(&client).count_documents(doc! {}).run().unwrap(), 1);
    things(&client).insert_one(doc! { "_id": 2 }).run().unwrap();
    drop(client);
    let client = scratch.open();
    assert_eq!(things(&client).count_documents(doc! {}).run().unwrap(), 2);
}

#[test]
fn a_value_of_a_delayed_store_never_comes_again() {
    let scratch = Scratch::new();
    let client = delayed(&scratch, Duration::from_secs(1));
    let shop = client.database("shop");
    for (name, cache_size) in [("single", 1), ("many", 10)] {
        let options = SequenceOptions::builder().cache_size(cache_size).acquire_size(1).build();
        shop.create_sequence(name).with_options(options).run().unwrap();
    }
    let next =
        |client: &Client, name: &str| client.database("shop").sequence(name).next_value().run().unwrap();
    let given = [next(&client, "single"), next(&client, "many")];
    let copy = scratch.killed();
    let after_death = copy.open();
    assert!(next(&after_death, "single") > given[0] && next(&after_death, "many") > given[1]);
}

#[test]
fn threads_that_wait_for_the_system_lose_nothing_of_a_delayed_store() {
    const EACH: i32 = 200;
    let scratch = Scratch::new();
    let client = delayed(&scratch, Duration::from_secs(1));
    race(0..4, |thread| {
        for id in thread * EACH..(thread + 1) * EACH {
            let concern = if id % 3 == 0 { WriteConcern::buffered() } else { WriteConcern::default() };
            things(&client).insert_one(doc! { "_id": id }).write_concern(concern).run().unwrap();
        }
        things(&client)
            .insert_one(doc! { "_id": -1 - thread })
            .write_concern(WriteConcern::buffered())
            .run()
            .unwrap();
    });
    assert_eq!(after_death(&scratch), (-4..4 * EACH).collect::<Vec<_>>());
}

#[test]
fn one_node_meets_one_and_the_majority() {
    let scratch = Scratch::new();
    let client = scratch.open();
    for w in [Acknowledgment::Nodes(1), Acknowledgment::Majority] {
        things(&client).insert_one(doc! {}).write_concern(with_nodes(w)).run().unwrap();
    }
    let nobody = with_nodes(Acknowledgment::Nodes(0));
    let error = things(&client).insert_one(doc! {}).write_concern(nobody).run().expect_err("refused");
    assert!(matches!(error.kind(), ErrorKind::InvalidArgument { .. }), "{error:?}");
    assert!(error.to_string().contains("w: 0"), "{error}");
    let two = || with_nodes(Acknowledgment::Nodes(2));
    refused(things(&client).insert_one(doc! {}).write_concern(two()).run(), 2, "'w' > 1");
    refused(things(&client).delete_many(doc! {}).write_concern(two()).run(), 2, "'w' > 1");
    refused(things(&client).replace_one(doc! {}, doc! {}).write_concern(two()).run(), 2, "'w' > 1");
    let tagged = with_nodes(Acknowledgment::Custom("eu".to_owned()));
    refused(things(&client).insert_one(doc! {}).write_concern(tagged).run(), 2, "eu");
    assert_eq!(things(&client).count_documents(doc! {}).run().unwrap(), 2);
}

/// Each statement of a journaled command, and each write of a journaled call, waited for a sync of its own.
#[test]
fn the_writes_of_a_journaled_call_share_one_sync() {
    let scratch = Scratch::new();
    let client = slow_to_sync(&scratch);
    things(&client).insert_one(doc! {}).run().unwrap();
    let db = things(&client).namespace().db;
    let syncs = || client.metrics().unwrap().waits.syncs.count;
    let run = |command: Document| client.database(&db).run_command(command).run().unwrap();
    let ids = 0..500;
    let updates: Vec<Document> = ids
        .clone()
        .map(|id| doc! { "q": { "_id": id }, "u": { "$set": { "x": id } }, "upsert": true })
        .collect();
    let replacements: Vec<Document> =
        ids.clone().map(|id| doc! { "q": { "_id": id }, "u": { "y": id }, "upsert": true }).collect();
    let deletes: Vec<Document> = ids.map(|id| doc! { "q": { "_id": id }, "limit": 1 }).collect();
    for concern in [doc! { "j": true }, doc! { "w": "majority" }] {
        for (name, field, statements) in [
            ("update", "updates", &updates),
            ("update", "updates", &replacements),
            ("delete", "deletes", &deletes),
        ] {
            let before = syncs();
            let reply =
                run(doc! { name: "things", field: statements.clone(), "writeConcern": concern.clone() });
            assert_eq!(reply.get_i32("n").unwrap(), 500);
            assert!(client.durable_seq() >= client.written_seq().unwrap(), "{name} {concern}");
            // The background may sync besides.
            assert!(syncs() - before < 100, "{name} {concern}: {} syncs", syncs() - before);
        }
    }
    let before = syncs();
    let models: Vec<_> =
        (0..500).map(|id| things(&client).insert_one_model(doc! { "_id": id }).unwrap()).collect();
    let written = things(&client).bulk_write(models).write_concern(WriteConcern::journaled()).run().unwrap();
    assert_eq!(written.inserted_count, 500);
    assert!(client.durable_seq() >= client.written_seq().unwrap());
    assert!(syncs() - before < 100, "bulk_write: {} syncs", syncs() - before);
    // A rejected statement ends the command, and what came before it is acknowledged all the same.
    let refused =
        [doc! { "q": { "_id": 1 }, "u": { "x": 1 }, "upsert": true }, doc! { "q": {}, "u": { "$no": 1 } }];
    let reply = run(doc! { "update": "things", "updates": refused.to_vec(), "writeConcern": { "j": true } });
    assert_eq!(reply.get_array("writeErrors").unwrap().len(), 1);
    assert!(client.durable_seq() >= client.written_seq().unwrap());
}
