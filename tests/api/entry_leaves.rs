//! Searches by an index, which are answered from leaves in memory once they were asked a few times, find the documents that are there.

use std::collections::BTreeMap;

use cairndb::bson::{Bson, Document, doc};
use cairndb::{
    Client, ClientBuilder, Collation, CollationStrength, Collection, Hint, IndexModel, IndexOptions,
    PlantedFault,
};
use cairndb_tests::scratch::{Scratch, small, things};

/// The number of times that a search is repeated. The second time leaves are wanted, and the third they are made.
const TIMES: usize = 6;

/// A collection with one index, and searches by it.
struct Asked {
    things: Collection<Document>,
    keys: Document,
    collation: Option<Collation>,
    filters: Vec<Document>,
    /// Whether an answer was not that of the documents.
    is_wrong: bool,
}

impl Asked {
    /// Asks every search again and again, each time in several ways, and compares the answers with the documents.
    fn ask(&mut self) {
        for filter in &self.filters {
            let natural = Hint::Keys(doc! { "$natural": 1 });
            let find = |hint: Hint| {
                let mut find = self.things.find(filter.clone()).hint(hint);
                if let Some(collation) = &self.collation {
                    find = find.collation(collation.clone());
                }
                // A leaf that is not of the documents names one that is not there, and the engine finds that.
                let found = find.run().and_then(Iterator::collect::<cairndb::Result<Vec<Document>>>);
                let ids = |found: Vec<Document>| {
                    found.iter().filter_map(|found| found.get("_id").cloned()).collect()
                };
                found.ok().map(ids).map(|mut ids: Vec<Bson>| {
                    ids.sort_by_key(ToString::to_string);
                    ids
                })
            };
            let expected = find(natural).expect("read");
            for _ in 0..TIMES {
                self.is_wrong |= find(Hint::Keys(self.keys.clone())).as_ref() != Some(&expected);
                let one = self.things.find_one(filter.clone());
                let one = match &self.collation {
                    Some(collation) => one.collation(collation.clone()),
                    None => one,
                };
                let one = one.run().map(|one| one.and_then(|one| one.get("_id").cloned()));
                self.is_wrong |=
                    one.map_or(true, |one| one.map_or(!expected.is_empty(), |one| !expected.contains(&one)));
            }
        }
    }

    /// Writes in all the ways that change entries, and asks after each.
    fn write_and_ask(&mut self) {
        let things = self.things.clone();
        let done = |result: cairndb::Result<()>| result.expect("written");
        self.ask();
        done(things.insert_one(doc! { "_id": 10, "a": 5, "b": 1 }).run().map(|_| ()));
        self.ask();
        done(
            things
                .insert_many([doc! { "_id": 11, "a": 6, "b": 2 }, doc! { "_id": 12, "a": 7, "b": 2 }])
                .run()
                .map(|_| ()),
        );
        self.ask();
        done(things.update_one(doc! { "_id": 10 }, doc! { "$set": { "a": 8 } }).run().map(|_| ()));
        self.ask();
        done(things.update_many(doc! { "b": 2 }, doc! { "$inc": { "a": 20 } }).run().map(|_| ()));
        self.ask();
        done(things.replace_one(doc! { "_id": 11 }, doc! { "a": 5, "b": 1 }).run().map(|_| ()));
        self.ask();
        done(things.find_one_and_update(doc! { "_id": 11 }, doc! { "$set": { "a": 6 } }).run().map(|_| ()));
        self.ask();
        done(things.delete_one(doc! { "_id": 11 }).run().map(|_| ()));
        self.ask();
        done(things.delete_many(doc! { "b": { "$gte": 0 } }).run().map(|_| ()));
        self.ask();
    }
}

fn options(name: &str) -> IndexOptions {
    let options = IndexOptions::builder();
    match name {
        "unique" => options.unique(true).build(),
        "sparse" => options.sparse(true).build(),
        "partial" => options.partial_filter_expression(doc! { "b": { "$gte": 0 } }).build(),
        "collated" => options.collation(german()).build(),
        _ => options.build(),
    }
}

fn german() -> Collation {
    Collation::with_locale("de").strength(CollationStrength::Primary)
}

/// Whether some answer was wrong.
fn is_wrong(open: ClientBuilder, name: &str, keys: Document, filters: Vec<Document>) -> bool {
    let scratch = Scratch::new();
    let client = scratch.open_with(open);
    let things = things(&client);
    things
        .create_index(IndexModel::builder().keys(keys.clone()).options(options(name)).build())
        .run()
        .expect("made");
    let first = (0..4).map(|id| doc! { "_id": id, "a": id, "b": 0 });
    things.insert_many(first).run().expect("inserted");
    let collation = (name == "collated").then(german);
    let mut asked = Asked { things, keys, collation, filters, is_wrong: false };
    asked.write_and_ask();
    asked.is_wrong
}

/// Searches for one value of `a` each.
fn by_a() -> Vec<Document> {
    [2, 5, 6, 7, 8, 26, 27].map(|a| doc! { "a": a }).to_vec()
}

/// No answer is wrong, and some are if writers do not remove the leaves that they change: so there were leaves.
#[track_caller]
fn check(name: &str, keys: Document, filters: Vec<Document>) {
    assert!(!is_wrong(small(), name, keys.clone(), filters.clone()), "{name} {keys}");
    let planted = small().planted_fault(PlantedFault::LeavesNotNoted);
    assert!(is_wrong(planted, name, keys.clone(), filters), "{name} {keys}: no leaf was used");
}

#[test]
fn answers_of_every_kind_of_index_are_those_of_the_documents() {
    check("plain", doc! { "a": 1 }, by_a());
    check("descending", doc! { "a": -1 }, by_a());
    check("unique", doc! { "a": 1 }, by_a());
    check("sparse", doc! { "a": 1 }, by_a());
    check("leading", doc! { "a": 1, "b": -1 }, by_a());
    check(
        "second",
        doc! { "b": 1, "a": 1 },
        by_a()
            .into_iter()
            .map(|filter| doc! { "b": 2, "a": filter.get_i32("a").expect("a number") })
            .chain([doc! { "b": 1 }])
            .collect(),
    );
    let both = |filter: Document| doc! { "a": filter.get_i32("a").expect("a number"), "b": { "$gte": 0 } };
    check("partial", doc! { "a": 1 }, by_a().into_iter().map(both).collect());
    check("collated", doc! { "a": 1 }, by_a());
    check(
        "several",
        doc! { "a": 1 },
        vec![doc! { "a": { "$in": [5, 6, 26] } }, doc! { "$or": [{ "a": 8 }, { "a": 5 }] }],
    );
}

#[test]
fn entries_of_arrays_and_of_texts_in_a_language() {
    let scratch = Scratch::new();
    let client = scratch.open_with(small());
    let things = things(&client);
    things
        .create_index(IndexModel::builder().keys(doc! { "t": 1 }).options(options("collated")).build())
        .run()
        .expect("made");
    things.create_index(IndexModel::builder().keys(doc! { "n": 1 }).build()).run().expect("made");
    let count = |filter: Document| {
        let counts = (0..TIMES).map(|_| {
            let found = things.find(filter.clone()).collation(german()).run().expect("a cursor").count();
            let counted = things.count_documents(filter.clone()).collation(german()).run().expect("counted");
            assert_eq!(found as u64, counted);
            counted
        });
        let mut counts: Vec<u64> = counts.collect();
        counts.dedup();
        assert_eq!(counts.len(), 1, "{filter}: {counts:?}");
        counts[0]
    };
    let (texts, numbers) = (doc! { "t": "müller" }, doc! { "n": 3 });
    assert_eq!((count(texts.clone()), count(numbers.clone())), (0, 0));
    things.insert_one(doc! { "_id": 1, "t": "Muller", "n": [1, 3, 3, 5] }).run().expect("inserted");
    assert_eq!((count(texts.clone()), count(numbers.clone())), (1, 1));
    things
        .update_one(doc! { "_id": 1 }, doc! { "$pull": { "n": 3 }, "$set": { "t": ["MÜLLER", "x"] } })
        .run()
        .expect("updated");
    assert_eq!((count(texts.clone()), count(numbers.clone())), (1, 0));
    things
        .update_one(doc! { "_id": 1 }, doc! { "$push": { "n": 3 }, "$unset": { "t": 1 } })
        .run()
        .expect("updated");
    assert_eq!((count(texts), count(numbers)), (0, 1));
}

/// Many entries of one value are in several leaves, and walked over both ways.
#[test]
fn more_entries_than_a_leaf_has_room_for() {
    let scratch = Scratch::new();
    let client = scratch.open_with(small());
    let things = things(&client);
    things.create_index(IndexModel::builder().keys(doc! { "a": 1 }).build()).run().expect("made");
    let ids = |direction: i32| {
        let found = things
            .find(doc! { "a": 7 })
            .sort(doc! { "a": direction, "_id": direction })
            .run()
            .expect("a cursor");
        found.map(|found| found.expect("read").get_i32("_id").expect("a number")).collect::<Vec<_>>()
    };
    let mut expected = Vec::new();
    for id in 0..400 {
        things.insert_one(doc! { "_id": id, "a": 7 }).run().expect("inserted");
        expected.push(id);
        if id % 40 < 3 {
            for _ in 0..TIMES {
                assert_eq!(ids(1), expected);
                assert!(ids(-1).iter().rev().eq(&expected));
                let first = things.find_one(doc! { "a": 7 }).run().expect("read").expect("there");
                assert_eq!(first.get_i32("_id").ok(), Some(0));
            }
        }
    }
    things.delete_many(doc! { "_id": { "$gte": 2 } }).run().expect("deleted");
    for _ in 0..TIMES {
        assert_eq!(ids(1), [0, 1]);
    }
}

#[test]
fn a_transaction_sees_its_own_state_and_its_commit_is_seen() {
    let scratch = Scratch::new();
    let client = scratch.open_with(small());
    let things = things(&client);
    things.create_index(IndexModel::builder().keys(doc! { "a": 1 }).build()).run().expect("made");
    things.insert_one(doc! { "_id": 1, "a": 7 }).run().expect("inserted");
    let outside = |a: i32| {
        for _ in 0..TIMES {
            things.find_one(doc! { "a": a }).run().expect("read");
        }
        things
            .find_one(doc! { "a": a })
            .run()
            .expect("read")
            .map(|found| found.get_i32("_id").expect("a number"))
    };
    assert_eq!((outside(7), outside(8)), (Some(1), None));
    let mut session = client.start_session().run().expect("a session");
    session.start_transaction().run().expect("begun");
    things
        .update_one(doc! { "_id": 1 }, doc! { "$set": { "a": 8 } })
        .session(&mut session)
        .run()
        .expect("updated");
    for _ in 0..TIMES {
        assert!(things.find_one(doc! { "a": 7 }).session(&mut session).run().expect("read").is_none());
        assert!(things.find_one(doc! { "a": 8 }).session(&mut session).run().expect("read").is_some());
        assert_eq!((outside(7), outside(8)), (Some(1), None));
    }
    session.commit_transaction().run().expect("committed");
    assert_eq!((outside(7), outside(8)), (None, Some(1)));
    // A snapshot from before a write does not get the leaf from after it, nor the other way round.
    let mut session = client.start_session().run().expect("a session");
    session.start_transaction().run().expect("begun");
    let within = |session: &mut cairndb::ClientSession| {
        things.find_one(doc! { "a": 8 }).session(session).run().expect("read").is_some()
    };
    assert!(within(&mut session));
    things.delete_one(doc! { "_id": 1 }).run().expect("deleted");
    for _ in 0..TIMES {
        assert!(within(&mut session));
        assert_eq!(outside(8), None);
    }
}

#[test]
fn what_removes_all_entries_at_once() {
    let scratch = Scratch::new();
    let client = scratch.open_with(small());
    let things = things(&client);
    let index = || IndexModel::builder().keys(doc! { "a": 1 }).build();
    things.create_index(index()).run().expect("made");
    let found = || {
        (0..TIMES)
            .map(|_| things.find_one(doc! { "a": 7 }).run().expect("read").is_some())
            .collect::<Vec<_>>()
    };
    let insert = |id: i32| drop(things.insert_one(doc! { "_id": id, "a": 7 }).run().expect("inserted"));
    insert(1);
    assert_eq!(found(), [true; TIMES]);
    things.truncate().run().expect("emptied");
    assert_eq!(found(), [false; TIMES]);
    insert(2);
    assert_eq!(found(), [true; TIMES]);
    things.drop_index("a_1").run().expect("dropped");
    assert_eq!(found(), [true; TIMES]);
    things.delete_one(doc! { "_id": 2 }).run().expect("deleted");
    things.create_index(index()).run().expect("made");
    assert_eq!(found(), [false; TIMES]);
    insert(3);
    client
        .database("test")
        .run_command(doc! { "convertToCapped": things.name(), "size": 4096 })
        .run()
        .expect("converted");
    things.create_index(index()).run().expect("made");
    assert_eq!(found(), [true; TIMES]);
    // It is pushed out.
    things
        .insert_many((10..200).map(|id| doc! { "_id": id, "a": 0, "b": "x".repeat(100) }))
        .run()
        .expect("inserted");
    assert_eq!(found(), [false; TIMES]);
    things.drop().run().expect("dropped");
    assert_eq!(found(), [false; TIMES]);
}

/// An index that is written and seldom asked keeps no leaves after a while, and what it kept before is not used later.
#[test]
fn leaves_that_are_changed_and_not_used_are_given_up() {
    let scratch = Scratch::new();
    let client = scratch.open_with(small());
    let things = things(&client);
    things.create_index(IndexModel::builder().keys(doc! { "a": 1 }).build()).run().expect("made");
    let found = |a: i32| {
        let times = (0..TIMES).map(|_| things.find(doc! { "a": a }).run().expect("a cursor").count());
        let mut times: Vec<_> = times.collect();
        times.dedup();
        times
    };
    things.insert_one(doc! { "_id": "x", "a": 7 }).run().expect("inserted");
    assert_eq!((found(7), found(8)), (vec![1], vec![0]));
    for first in 0..10 {
        let many = (0..4000).map(|number| doc! { "_id": 10_000 * first + number, "a": 100 });
        things.insert_many(many).run().expect("inserted");
    }
    // Not noted any more.
    things.update_one(doc! { "_id": "x" }, doc! { "$set": { "a": 8 } }).run().expect("updated");
    assert_eq!((found(7), found(8)), (vec![0], vec![1]));
    things.update_one(doc! { "_id": "x" }, doc! { "$set": { "a": 7 } }).run().expect("updated");
    assert_eq!((found(7), found(8)), (vec![1], vec![0]));
}

#[test]
fn joins_are_answered_from_leaves_too() {
    let scratch = Scratch::new();
    let client = scratch.open_with(small());
    let things = things(&client);
    let others = client.database("test").collection::<Document>("others");
    for (keys, name) in [(doc! { "a": 1 }, "plain"), (doc! { "u": 1 }, "unique")] {
        others
            .create_index(IndexModel::builder().keys(keys).options(options(name)).build())
            .run()
            .expect("made");
    }
    things.insert_many((0..5).map(|id| doc! { "_id": id })).run().expect("inserted");
    let joined = |field: &str| {
        let pipeline = [
            doc! { "$lookup": { "from": "others", "localField": "_id", "foreignField": field, "as": "found" } },
            doc! { "$project": { "n": { "$size": "$found" } } },
        ];
        let all: Vec<Vec<i32>> = (0..TIMES)
            .map(|_| {
                let joined = things.aggregate(pipeline.clone()).run().expect("a cursor");
                joined.map(|joined| joined.expect("read").get_i32("n").expect("a number")).collect()
            })
            .collect();
        assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "{all:?}");
        all[0].clone()
    };
    assert_eq!((joined("a"), joined("u")), (vec![0; 5], vec![0; 5]));
    others.insert_many((0..8).map(|id| doc! { "_id": id, "a": id / 2, "u": id })).run().expect("inserted");
    assert_eq!((joined("a"), joined("u")), (vec![2, 2, 2, 2, 0], vec![1; 5]));
    others.delete_many(doc! { "_id": { "$lt": 3 } }).run().expect("deleted");
    assert_eq!((joined("a"), joined("u")), (vec![0, 1, 2, 2, 0], vec![0, 0, 0, 1, 1]));
}

#[test]
fn limits_large_documents_and_arrays() {
    let scratch = Scratch::new();
    let client = scratch.open_with(small());
    let things = things(&client);
    things.create_index(IndexModel::builder().keys(doc! { "a": 1 }).build()).run().expect("made");
    let large = "x".repeat(40_000);
    things.insert_many((0..3).map(|id| doc! { "_id": id, "a": 7, "large": &large })).run().expect("inserted");
    things.insert_one(doc! { "_id": 3, "a": [5, 7], "b": 1 }).run().expect("inserted");
    things.insert_one(doc! { "_id": 4, "a": { "b": 7 } }).run().expect("inserted");
    let ids = |filter: Document, limit: i64| {
        let found = things.find(filter).limit(limit).run().expect("a cursor");
        found.map(|found| found.expect("read").get_i32("_id").expect("a number")).collect::<Vec<_>>()
    };
    for _ in 0..TIMES {
        assert_eq!(ids(doc! { "a": 7 }, 0), [0, 1, 2, 3]);
        assert_eq!(ids(doc! { "a": 7 }, 1), [0]);
        assert_eq!(ids(doc! { "a": 7 }, -2), [0, 1]);
        assert_eq!(ids(doc! { "a": 7 }, 9), [0, 1, 2, 3]);
        assert_eq!(ids(doc! { "a": 5 }, 1), [3]);
        assert!(ids(doc! { "a": 6 }, 1).is_empty());
        assert_eq!(ids(doc! { "_id": 3 }, 0), [3]);
        assert!(ids(doc! { "_id": 9 }, 1).is_empty());
        assert_eq!(ids(doc! { "a.b": 7 }, 1), [4]);
        let one = |filter| {
            things.find_one(filter).run().expect("read").map(|one| one.get_i32("_id").expect("a number"))
        };
        assert_eq!(
            (one(doc! { "a": 7 }), one(doc! { "a": 5 }), one(doc! { "a": 6 })),
            (Some(0), Some(3), None)
        );
    }
    // What has no such collection is empty, and a view has its own documents.
    client
        .database("test")
        .run_command(doc! { "create": "seen", "viewOn": "things", "pipeline": [{ "$match": { "_id": 3 } }] })
        .run()
        .expect("a view");
    for (name, expected) in [("seen", 1), ("nothing", 0)] {
        let named = client.database("test").collection::<Document>(name);
        for filter in [doc! { "a": 7 }, doc! { "_id": 3 }] {
            let found = named.find(filter.clone()).run().expect("a cursor").count();
            assert_eq!(found, expected, "{name} {filter}");
        }
    }
}

/// Documents of which ranges are read, and what is known of them.
struct Ranges {
    client: Client,
    things: Collection<Document>,
    /// The value of `b` by `a` and then by `_id`.
    known: BTreeMap<(i32, i32), i32>,
    random: u64,
    /// Whether no entry of the index is changed after the first ones.
    keeps_entries: bool,
}

impl Ranges {
    fn random(&mut self, below: i32) -> i32 {
        // Marsaglia's xorshift.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        i32::try_from(self.random % u64::try_from(below).expect("positive")).expect("below")
    }

    fn write(&mut self) {
        if self.keeps_entries || self.random(3) == 0 {
            return self.write_documents();
        }
        let (id, a) = (self.random(2_000), self.random(500));
        let b = self.known.iter().find(|(known, _)| known.1 == id).map_or(0, |(_, b)| *b);
        self.known.retain(|known, _| known.1 != id);
        if self.random(3) == 0 {
            self.things.delete_one(doc! { "_id": id }).run().expect("deleted");
        } else {
            let set = doc! { "$set": { "a": a, "b": b } };
            self.things.update_one(doc! { "_id": id }, set).upsert(true).run().expect("updated");
            self.known.insert((a, id), b);
        }
    }

    /// Changes `b` of one document, or of some, in one of the ways in which documents are written.
    fn write_documents(&mut self) {
        let (first, way) = (self.random(500), self.random(6));
        let last = if way == 0 { first + 10 } else { 500 };
        let mut changed: Vec<_> = self.known.range_mut((first, 0)..=(last, i32::MAX)).collect();
        if way > 0 {
            changed.truncate(1);
        }
        let Some(((a, id), b)) = changed.first().map(|(known, b)| (**known, **b + 1)) else { return };
        for (_, b) in &mut changed {
            **b += 1;
        }
        let ids: Vec<i32> = changed.iter().map(|(known, _)| known.1).collect();
        let (things, one, raise) = (&self.things, doc! { "_id": id }, doc! { "$inc": { "b": 1 } });
        let whole = doc! { "_id": id, "a": a, "b": b };
        match way {
            0 => {
                let all = doc! { "_id": { "$in": ids } };
                drop(things.update_many(all, raise).run().expect("updated"));
            }
            1 => drop(things.replace_one(one, whole).run().expect("replaced")),
            2 => drop(things.find_one_and_update(one, raise).run().expect("updated")),
            3 => {
                things.delete_one(one).run().expect("deleted");
                things.insert_one(whole).run().expect("inserted");
            }
            4 => {
                let mut session = self.client.start_session().run().expect("a session");
                session.start_transaction().run().expect("begun");
                things.update_one(one, raise).session(&mut session).run().expect("updated");
                session.commit_transaction().run().expect("committed");
            }
            _ => drop(things.update_one(one, raise).run().expect("updated")),
        }
    }

    /// Reads a range in some way. Returns whether the answer is that of the documents.
    fn read(&mut self) -> bool {
        let (first, direction) = (self.random(500), if self.random(2) == 0 { 1 } else { -1 });
        let (first, last) = match self.random(5) {
            // To the end, or from the beginning on.
            0 if direction < 0 => (first, i32::MAX),
            0 => (i32::MIN, first),
            1 => (first, first),
            2 => (first, first + 1),
            3 => (first, first + 10),
            _ => (first, first + 200),
        };
        let within = self.known.range((first, 0)..=(last, i32::MAX));
        let mut expected: Vec<(i32, i32, i32)> = within.map(|((a, id), b)| (*a, *id, *b)).collect();
        if direction < 0 {
            expected.reverse();
        }
        let range = doc! { "a": { "$gte": first, "$lte": last } };
        if self.random(4) == 0 {
            let mut values: Vec<Bson> = expected.iter().map(|known| Bson::Int32(known.0)).collect();
            values.sort_by_key(Bson::as_i32);
            values.dedup();
            return self.things.distinct("a", range).run().is_ok_and(|found| found == values);
        }
        let limit = match self.random(3) {
            0 => 0,
            1 => 1,
            _ => 70,
        };
        if limit > 0 {
            expected.truncate(limit);
        }
        let find = self.things.find(range).sort(doc! { "a": direction, "_id": direction });
        let find = find.hint(Hint::Name("a_1__id_1".to_owned())).limit(i64::try_from(limit).expect("small"));
        // Small batches let the cursor rest in the middle of a leaf.
        let mut cursor = find.batch_size(7).run().expect("a cursor");
        let (mut found, mut is_repeated) = (Vec::new(), false);
        loop {
            match cursor.advance() {
                Ok(true) => {}
                Ok(false) => return found == expected,
                Err(_) => return false,
            }
            let document = cursor.deserialize_current().expect("a document");
            let [a, id, b] = ["a", "_id", "b"].map(|field| document.get_i32(field).expect("a number"));
            found.push((a, id, b));
            if found.len() % 7 == 3 {
                cursor.rest();
            } else if found.len() % 11 == 5 && !is_repeated {
                cursor.step_back();
                found.pop();
                is_repeated = true;
                continue;
            }
            is_repeated = false;
        }
    }
}

/// The number of wrong answers.
fn wrong_ranges(open: ClientBuilder, keeps_entries: bool) -> usize {
    let scratch = Scratch::new();
    let client = scratch.open_with(open);
    let things = things(&client);
    things.create_index(IndexModel::builder().keys(doc! { "a": 1, "_id": 1 }).build()).run().expect("made");
    let mut ranges =
        Ranges { client, things, known: BTreeMap::new(), random: 0x9e37_79b9_7f4a_7c15, keeps_entries };
    for id in 0..1_000 {
        ranges.things.insert_one(doc! { "_id": id, "a": id / 2, "b": 0 }).run().expect("inserted");
        ranges.known.insert((id / 2, id), 0);
    }
    let mut wrong = 0;
    for round in 0..3_000 {
        wrong += usize::from(!ranges.read());
        if round % 5 == 0 {
            ranges.write();
        }
        // So many that leaves are given up, and kept again later. Those from before are not used then.
        if !keeps_entries && (round == 1_000 || round == 2_000) {
            for _ in 0..2 {
                let far = (0..9_000).map(|id| doc! { "_id": 10_000 + id, "a": -id });
                ranges.things.insert_many(far).run().expect("inserted");
                ranges.things.delete_many(doc! { "_id": { "$gte": 10_000 } }).run().expect("deleted");
            }
            for _ in 0..20 {
                ranges.write();
            }
        }
    }
    wrong
}

#[test]
fn ranges_both_ways_agree_with_the_documents() {
    assert_eq!(wrong_ranges(small(), false), 0);
    assert_eq!(wrong_ranges(small().record_cache(40_000), false), 0, "leaves are driven out all the time");
    assert_eq!(wrong_ranges(small().record_cache(0), false), 0);
    let planted = || small().planted_fault(PlantedFault::LeavesNotNoted);
    let wrong = wrong_ranges(planted(), false);
    assert!(wrong > 100, "{wrong} answers from leaves");
    // Only documents are changed, which are in leaves of their own.
    assert_eq!(wrong_ranges(small(), true), 0);
    let wrong = wrong_ranges(planted(), true);
    assert!(wrong > 100, "{wrong} documents from leaves");
}
