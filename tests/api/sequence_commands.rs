//! The commands of sequences and auto-increment fields: every row of `docs/commands.md`, and every rejection with the
//! numbers and names of both worlds.

use cairndb::bson::{Bson, Decimal128, Document, bson, doc};
use cairndb::{Database, Error, ErrorKind};

use crate::Fixture;

/// A database to which commands are sent.
struct Shop {
    fixture: Fixture,
    db: Database,
}

/// A rejection: SequoiaDB's number and MongoDB's, each with its name.
type Refusal = ((i32, &'static str), (i32, &'static str));

const BAD_VALUE: (i32, &str) = (2, "BadValue");
const INVALID: Refusal = ((-6, "SDB_INVALIDARG"), BAD_VALUE);
const WRONG_TYPE: Refusal = ((-6, "SDB_INVALIDARG"), (14, "TypeMismatch"));
const EXISTS: Refusal = ((-323, "SDB_SEQUENCE_EXIST"), BAD_VALUE);
const NOT_FOUND: Refusal = ((-324, "SDB_SEQUENCE_NOT_EXIST"), BAD_VALUE);
const EXCEEDED: Refusal = ((-325, "SDB_SEQUENCE_EXCEEDED"), BAD_VALUE);
const CONFLICT: Refusal = ((-332, "SDB_AUTOINCREMENT_FIELD_CONFLICT"), BAD_VALUE);
const NO_FIELD: Refusal = ((-333, "SDB_AUTOINCREMENT_FIELD_NOT_EXIST"), BAD_VALUE);
const USED: Refusal = ((-361, "SDB_SEQUENCE_VALUE_USED"), BAD_VALUE);
const NEVER_USED: Refusal = ((-362, "SDB_SEQUENCE_NEVER_USED"), BAD_VALUE);

const NOTHING: [Document; 0] = [];

impl Shop {
    #[track_caller]
    fn new() -> Self {
        let fixture = Fixture::new();
        let db = fixture.client.database("shop");
        Self { fixture, db }
    }

    /// One with a sequence `s`.
    #[track_caller]
    fn with(options: Document) -> Self {
        let shop = Self::new();
        shop.is(doc! { "createSequence": "s", "options": options }, doc! {});
        shop
    }

    /// One with a collection `a` whose fields number themselves.
    #[track_caller]
    fn numbered(fields: Bson) -> Self {
        let shop = Self::new();
        shop.is(doc! { "create": "a", "autoIncrement": fields }, doc! {});
        shop
    }

    fn run(&self, command: Document) -> Result<Document, Error> {
        let mut reply = self.db.run_command(command).run()?;
        assert_eq!(reply.remove("ok"), Some(Bson::Double(1.0)));
        Ok(reply)
    }

    /// The reply of a command that is not rejected, without `ok`.
    #[track_caller]
    fn reply(&self, command: Document) -> Document {
        self.run(command).expect("a reply")
    }

    #[track_caller]
    fn is(&self, command: Document, expected: Document) {
        assert_eq!(self.reply(command.clone()), expected, "{command}");
    }

    #[track_caller]
    fn refuses(&self, command: Document, (sequoia, mongo): Refusal, words: &str) {
        let error = self.run(command.clone()).expect_err("refused");
        let ErrorKind::Sequence(refusal) = error.kind() else { panic!("{command}: {error:?}") };
        assert_eq!((refusal.sequoia_code(), refusal.sequoia_name()), sequoia, "{command}: {refusal}");
        assert_eq!((refusal.code(), refusal.code_name()), mongo, "{command}: {refusal}");
        assert!(refusal.to_string().contains(words), "{command}: {refusal} does not say {words:?}");
    }

    /// The next value of `s`.
    #[track_caller]
    fn next(&self) -> i64 {
        self.reply(doc! { "sequenceNext": "s" }).get_i64("NextValue").expect("a value")
    }

    #[track_caller]
    fn sequences(&self) -> Vec<String> {
        let reply = self.reply(doc! { "listSequences": 1 });
        let names = reply.get_array("sequences").expect("a list").iter();
        names.map(|name| name.as_document().expect("one").get_str("Name").expect("text").to_owned()).collect()
    }

    #[track_caller]
    fn fields(&self) -> Vec<Document> {
        let reply = self.reply(doc! { "listAutoIncrements": "a" });
        let fields = reply.get_array("autoIncrements").expect("a list").iter();
        fields.map(|field| field.as_document().expect("one").clone()).collect()
    }

    /// The paths of the fields of `a`.
    #[track_caller]
    fn paths(&self) -> Vec<String> {
        self.fields().iter().map(|field| field.get_str("Field").expect("text").to_owned()).collect()
    }

    /// The generated values of an empty document.
    #[track_caller]
    fn generated(&self) -> Document {
        let reply = self.reply(doc! { "insert": "a", "documents": [{}] });
        let values = reply.get_array("generated").expect("values").first();
        values.and_then(Bson::as_document).expect("of one document").clone()
    }

    /// Every document of `a`, without its `_id`.
    #[track_caller]
    fn stored(&self) -> Vec<Document> {
        let mut stored = crate::all(&self.db.collection("a"));
        for document in &mut stored {
            document.remove("_id");
        }
        stored
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.fixture.verify_clean();
        }
    }
}

/// A value of each type that is not an integer.
fn no_integers() -> [(Bson, &'static str); 6] {
    [
        (bson!(2.0), "a double"),
        (Bson::Decimal128("2".parse::<Decimal128>().expect("a decimal")), "a decimal"),
        (bson!("2"), "the string \"2\""),
        (bson!(true), "the boolean true"),
        (bson!([2]), "an array"),
        (bson!({ "a": 2 }), "a document"),
    ]
}

#[test]
fn create_makes_a_collection_whose_fields_number_themselves() {
    let shop = Shop::numbered(bson!({ "Field": "n", "StartValue": 5 }));
    assert_eq!(shop.generated(), doc! { "n": 5_i64 });
    let shop = Shop::numbered(bson!([{ "Field": "n" }, { "Field": "a.b", "Increment": -1_i64 }]));
    assert_eq!(shop.generated(), doc! { "a.b": -1_i64, "n": 1_i64 });
    let shop = Shop::numbered(bson!([]));
    assert_eq!(shop.fields(), NOTHING);
}

#[test]
fn create_refuses_fields_and_makes_nothing() {
    let shop = Shop::new();
    let refuses = |fields: Bson, refusal: Refusal, words: &str| {
        shop.refuses(doc! { "create": "a", "autoIncrement": fields }, refusal, words);
    };
    let words = "autoIncrement must be a document or an array of documents, not";
    refuses(bson!(5), WRONG_TYPE, &format!("{words} the integer 5"));
    refuses(bson!("n"), WRONG_TYPE, &format!("{words} the string \"n\""));
    refuses(bson!(["n"]), WRONG_TYPE, &format!("{words} the string \"n\""));
    refuses(bson!([{ "Field": "n" }, null]), WRONG_TYPE, &format!("{words} null"));
    refuses(bson!({}), INVALID, "Field is required");
    refuses(bson!({ "Field": 5 }), WRONG_TYPE, "Field must be a string, not the integer 5");
    refuses(bson!({ "Field": "a..b" }), INVALID, "\"a..b\" is not allowed as an auto-increment field");
    refuses(
        bson!({ "Field": "n", "Cycle": true }),
        INVALID,
        "\"Cycle\" is not an option of an auto-increment",
    );
    refuses(bson!({ "Field": "n", "Generated": "Always" }), INVALID, "Generated must be one of");
    refuses(bson!({ "Field": "n", "CurrentValue": 5 }), INVALID, "CurrentValue cannot be set");
    refuses(bson!({ "Field": "n", "Initial": true }), INVALID, "Initial cannot be set");
    refuses(bson!({ "Field": "n", "CacheSize": 0 }), INVALID, "CacheSize must be within 1 and");
    refuses(bson!([{ "Field": "n" }, { "Field": "n" }]), INVALID, "are the same");
    refuses(bson!([{ "Field": "a" }, { "Field": "a.b" }]), INVALID, "one lies in the other");
    for (value, found) in no_integers() {
        let words = format!("Increment must be a 32-bit or 64-bit integer, not {found}");
        refuses(bson!({ "Field": "n", "Increment": value }), WRONG_TYPE, &words);
    }
    assert_eq!(shop.db.list_collection_names().run().unwrap(), [""; 0]);
    assert_eq!(shop.sequences(), [""; 0]);
}

#[test]
fn create_auto_increment_adds_fields() {
    let shop = Shop::new();
    shop.is(doc! { "createAutoIncrement": "a", "autoIncrement": { "Field": "n" } }, doc! {});
    shop.is(
        doc! { "createAutoIncrement": "a", "autoIncrement": [{ "Field": "m" }, { "Field": "l" }] },
        doc! {},
    );
    assert_eq!(shop.paths(), ["l", "m", "n"]);
    assert_eq!(shop.generated(), doc! { "l": 1_i64, "m": 1_i64, "n": 1_i64 });
}

#[test]
fn create_auto_increment_refuses_all_or_none() {
    let shop = Shop::numbered(bson!({ "Field": "a.n" }));
    let refuses = |fields: Bson, refusal: Refusal, words: &str| {
        shop.refuses(doc! { "createAutoIncrement": "a", "autoIncrement": fields }, refusal, words);
    };
    refuses(bson!({ "Field": "a.n" }), CONFLICT, "a.n conflicts with the field a.n");
    refuses(bson!({ "Field": "a" }), CONFLICT, "a conflicts with the field a.n");
    refuses(bson!([{ "Field": "m" }, { "Field": "a.n.x" }]), CONFLICT, "a.n.x conflicts with the field a.n");
    refuses(bson!([{ "Field": "m" }, { "Field": "m" }]), CONFLICT, "m conflicts with the field m");
    refuses(bson!([{ "Field": "m" }, { "Field": "l", "MaxValue": 0 }]), INVALID, "MinValue must be less");
    refuses(bson!({ "Field": "m", "CurrentValue": 1 }), INVALID, "CurrentValue cannot be set");
    refuses(bson!({ "Increment": 1 }), INVALID, "Field is required");
    refuses(bson!(["m"]), WRONG_TYPE, "autoIncrement must be a document or an array of documents");
    refuses(Bson::Null, INVALID, "autoIncrement is required");
    shop.refuses(doc! { "createAutoIncrement": "a" }, INVALID, "autoIncrement is required");
    assert_eq!(shop.paths(), ["a.n"]);
    assert_eq!(shop.sequences().len(), 1);
}

#[test]
fn alter_auto_increment_changes_fields_together() {
    let shop = Shop::numbered(bson!([{ "Field": "n" }, { "Field": "m" }]));
    shop.generated();
    let change = bson!([{ "Field": "n", "Increment": 10, "CurrentValue": 100_i64 }, { "Field": "m", "Generated": "strict" }]);
    shop.is(doc! { "alterAutoIncrement": "a", "autoIncrement": change }, doc! {});
    assert_eq!(shop.generated(), doc! { "m": 2_i64, "n": 110_i64 });
    let words = "m must be a 32-bit or 64-bit integer, or absent, not a string";
    shop.refuses(doc! { "insert": "a", "documents": [{ "m": "x" }] }, INVALID, words);
    let refuses = |fields: Bson, refusal: Refusal, words: &str| {
        shop.refuses(doc! { "alterAutoIncrement": "a", "autoIncrement": fields }, refusal, words);
    };
    refuses(bson!({ "Field": "x" }), NO_FIELD, "x is not an auto-increment field of the collection");
    refuses(bson!([{ "Field": "n", "Increment": 3 }, { "Field": "x" }]), NO_FIELD, "x is not");
    refuses(
        bson!([{ "Field": "n", "Increment": 3 }, { "Field": "m", "CurrentValue": 0 }]),
        INVALID,
        "CurrentValue must",
    );
    refuses(bson!([{ "Field": "n" }, { "Field": "n" }]), INVALID, "are the same");
    refuses(bson!({ "Field": "n", "StartFromExisting": true }), INVALID, "StartFromExisting cannot be set");
    refuses(bson!({ "Field": "n", "CycledCount": 1 }), INVALID, "CycledCount cannot be set");
    refuses(bson!({ "Increment": 3 }), INVALID, "Field is required");
    refuses(bson!("n"), WRONG_TYPE, "autoIncrement must be a document");
    shop.refuses(doc! { "alterAutoIncrement": "a" }, INVALID, "autoIncrement is required");
    let absent = doc! { "alterAutoIncrement": "b", "autoIncrement": { "Field": "n" } };
    crate::refused(shop.run(absent), 26, "shop.b");
    assert_eq!(shop.generated(), doc! { "m": 3_i64, "n": 120_i64 }, "nothing of it was changed");
}

#[test]
fn drop_auto_increment_takes_fields_off() {
    let shop = Shop::numbered(bson!([{ "Field": "n" }, { "Field": "m" }, { "Field": "l" }]));
    shop.generated();
    let refuses = |field: Bson, refusal: Refusal, words: &str| {
        shop.refuses(doc! { "dropAutoIncrement": "a", "field": field }, refusal, words);
    };
    refuses(bson!("x"), NO_FIELD, "x is not an auto-increment field");
    refuses(bson!(["n", "x"]), NO_FIELD, "x is not an auto-increment field");
    refuses(bson!(""), INVALID, "a name in it is empty");
    refuses(bson!([]), INVALID, "Field is required");
    refuses(bson!(5), WRONG_TYPE, "field must be a string, not the integer 5");
    refuses(bson!(["n", 5]), WRONG_TYPE, "field must be a string, not the integer 5");
    shop.refuses(doc! { "dropAutoIncrement": "a" }, INVALID, "field is required");
    crate::refused(shop.run(doc! { "dropAutoIncrement": "b", "field": "n" }), 26, "shop.b");
    assert_eq!(shop.paths(), ["l", "m", "n"]);
    shop.is(doc! { "dropAutoIncrement": "a", "field": "n" }, doc! {});
    assert_eq!(shop.paths(), ["l", "m"]);
    shop.is(doc! { "dropAutoIncrement": "a", "field": ["l", "m"] }, doc! {});
    assert_eq!((shop.paths(), shop.sequences()), (vec![], vec![]));
    assert_eq!(shop.stored(), [doc! { "l": 1_i64, "m": 1_i64, "n": 1_i64 }], "stored values stay");
}

#[test]
fn list_auto_increments_shows_fields_with_their_sequences() {
    let shop = Shop::numbered(bson!({ "Field": "a.n", "Generated": "always", "OnTruncate": "continue" }));
    let [name] = &shop.sequences()[..] else { panic!("one sequence") };
    let expected = doc! { "SequenceName": name, "Field": "a.n", "Generated": "always", "GenerateOnNull": false,
    "OnTruncate": "continue", "SequenceID": 1_i64 };
    assert_eq!(shop.fields(), [expected]);
    shop.is(doc! { "listAutoIncrements": "none" }, doc! { "autoIncrements": [] });
    crate::refused(shop.run(doc! { "listAutoIncrements": 5 }), 73, "listAutoIncrements");
}

#[test]
fn create_sequence_takes_all_attributes() {
    let options = doc! { "Increment": -2, "StartValue": 90_i64, "MinValue": 10, "MaxValue": 100, "CacheSize": 6_i64,
    "AcquireSize": 3, "Cycled": true, "Contract": "ordered" };
    let shop = Shop::with(options.clone());
    let snapshot = shop.reply(doc! { "sequenceSnapshot": "s" });
    let snapshot = snapshot.get_document("snapshot").unwrap();
    let expected = doc! { "Increment": -2, "StartValue": 90_i64, "MinValue": 10_i64, "MaxValue": 100_i64,
    "CacheSize": 6, "AcquireSize": 3, "Cycled": true, "Contract": "ordered" };
    for (name, value) in expected {
        assert_eq!(snapshot.get(&name), Some(&value), "{name}");
    }
    shop.is(doc! { "createSequence": "plain" }, doc! {});
    shop.is(doc! { "sequenceNext": "plain" }, doc! { "NextValue": 1_i64, "ReturnNum": 1, "Increment": 1 });
}

#[test]
fn create_sequence_refuses_names_and_options() {
    let shop = Shop::with(doc! {});
    shop.refuses(doc! { "createSequence": "s" }, EXISTS, "the sequence s exists");
    for (name, words) in [
        ("", "it is empty"),
        ("sYs1", "names that start with SYS"),
        ("$s", "it starts with $"),
        (" s", "it starts with a space or a tab"),
        ("\ts", "it starts with a space or a tab"),
    ] {
        shop.refuses(doc! { "createSequence": name }, INVALID, words);
    }
    shop.refuses(doc! { "createSequence": 5 }, WRONG_TYPE, "createSequence must be a string");
    shop.refuses(doc! { "createSequence": null }, INVALID, "createSequence is required");
    let refuses = |options: Bson, refusal: Refusal, words: &str| {
        shop.refuses(doc! { "createSequence": "t", "options": options }, refusal, words);
    };
    refuses(bson!(5), WRONG_TYPE, "options must be a document, not the integer 5");
    refuses(bson!({ "Cycle": true }), INVALID, "\"Cycle\" is not an option of a sequence");
    refuses(bson!({ "Field": "n" }), INVALID, "\"Field\" is not an option of a sequence");
    refuses(bson!({ "CurrentValue": 5 }), INVALID, "CurrentValue cannot be set when a sequence is created");
    for fixed in ["Name", "CycledCount", "Initial", "Internal", "Version", "ID", "CLUniqueID", "_id"] {
        refuses(bson!({ fixed: 1 }), INVALID, &format!("{fixed} cannot be set by an option"));
    }
    let integers =
        ["Increment", "StartValue", "MinValue", "MaxValue", "CurrentValue", "CacheSize", "AcquireSize"];
    for option in integers {
        for (value, found) in no_integers() {
            let words = format!("{option} must be a 32-bit or 64-bit integer, not {found}");
            refuses(bson!({ option: value }), WRONG_TYPE, &words);
        }
        refuses(bson!({ option: null }), WRONG_TYPE, "not null");
    }
    refuses(bson!({ "Cycled": 1 }), WRONG_TYPE, "Cycled must be a boolean, not the integer 1");
    refuses(bson!({ "Contract": 1 }), WRONG_TYPE, "Contract must be a string");
    refuses(bson!({ "Contract": "loose" }), INVALID, "Contract must be one of");
    refuses(bson!({ "Increment": 0 }), INVALID, "Increment must be within");
    refuses(bson!({ "MinValue": 5, "MaxValue": 5 }), INVALID, "MinValue must be less than MaxValue");
    refuses(bson!({ "StartValue": 0 }), INVALID, "StartValue must be within");
    refuses(bson!({ "CacheSize": 5 }), INVALID, "AcquireSize must be at most CacheSize 5");
    refuses(bson!({ "MaxValue": 5 }), INVALID, "CacheSize must be at most the 5 values");
    assert_eq!(shop.sequences(), ["s"]);
}

#[test]
fn alter_sequence_changes_attributes() {
    let shop = Shop::with(doc! { "AcquireSize": 10 });
    assert_eq!(shop.next(), 1);
    shop.is(doc! { "alterSequence": "s", "options": { "Increment": 5, "CurrentValue": 100_i64 } }, doc! {});
    assert_eq!(shop.next(), 105);
    let refuses = |options: Bson, refusal: Refusal, words: &str| {
        shop.refuses(doc! { "alterSequence": "s", "options": options }, refusal, words);
    };
    refuses(bson!({ "CurrentValue": 0 }), INVALID, "CurrentValue must be within MinValue 1");
    refuses(bson!({ "Increment": 0 }), INVALID, "Increment must be within");
    refuses(bson!({ "Name": "t" }), INVALID, "Name cannot be set by an option");
    refuses(bson!({ "Increment": 2.0 }), WRONG_TYPE, "not a double");
    refuses(bson!([]), WRONG_TYPE, "options must be a document, not an array");
    shop.refuses(doc! { "alterSequence": "s" }, INVALID, "options is required");
    shop.refuses(doc! { "alterSequence": "t", "options": {} }, NOT_FOUND, "there is no sequence t");
    shop.refuses(doc! { "alterSequence": "SYS1", "options": {} }, INVALID, "belong to auto-increment fields");
    shop.refuses(doc! { "alterSequence": 5, "options": {} }, WRONG_TYPE, "alterSequence must be a string");
    assert_eq!(shop.next(), 110, "nothing was changed, and the block kept");
}

#[test]
fn drop_sequence_ends_one_that_users_made() {
    let shop = Shop::with(doc! {});
    shop.is(doc! { "create": "a", "autoIncrement": { "Field": "n" } }, doc! {});
    let internal = shop.sequences().remove(0);
    shop.refuses(doc! { "dropSequence": &internal }, INVALID, "belong to auto-increment fields");
    shop.refuses(doc! { "dropSequence": "t" }, NOT_FOUND, "there is no sequence t");
    shop.refuses(doc! { "dropSequence": ["s"] }, WRONG_TYPE, "dropSequence must be a string, not an array");
    shop.is(doc! { "dropSequence": "s" }, doc! {});
    assert_eq!(shop.sequences(), [internal]);
    shop.refuses(doc! { "dropSequence": "s" }, NOT_FOUND, "there is no sequence s");
}

#[test]
fn rename_sequence_keeps_the_values() {
    let shop = Shop::with(doc! { "AcquireSize": 1 });
    assert_eq!(shop.next(), 1);
    shop.is(doc! { "createSequence": "t" }, doc! {});
    let refuses = |from: Bson, to: Bson, refusal: Refusal, words: &str| {
        shop.refuses(doc! { "renameSequence": from, "to": to }, refusal, words);
    };
    refuses(bson!("x"), bson!("y"), NOT_FOUND, "there is no sequence x");
    refuses(bson!("s"), bson!("t"), EXISTS, "the sequence t exists");
    refuses(bson!("s"), bson!("SYSt"), INVALID, "belong to auto-increment fields");
    refuses(bson!("SYSs"), bson!("u"), INVALID, "belong to auto-increment fields");
    refuses(bson!("s"), bson!(""), INVALID, "it is empty");
    refuses(bson!("s"), bson!(5), WRONG_TYPE, "to must be a string");
    refuses(bson!(5), bson!("u"), WRONG_TYPE, "renameSequence must be a string");
    shop.refuses(doc! { "renameSequence": "s" }, INVALID, "to is required");
    shop.is(doc! { "renameSequence": "s", "to": "u" }, doc! {});
    assert_eq!(shop.sequences(), ["t", "u"]);
    shop.is(doc! { "sequenceNext": "u" }, doc! { "NextValue": 2_i64, "ReturnNum": 1, "Increment": 1 });
    shop.refuses(doc! { "sequenceNext": "s" }, NOT_FOUND, "there is no sequence s");
}

/// Looking at the sequence behind a field is allowed by its name, as by a filter; drawing values and changing are not.
#[test]
fn the_sequence_behind_a_field_is_shown_by_name() {
    let shop = Shop::numbered(bson!({ "Field": "n" }));
    shop.generated();
    let name = shop.sequences().remove(0);
    let by_name = shop.reply(doc! { "sequenceSnapshot": &name }).get_document("snapshot").unwrap().clone();
    let by_filter = shop.reply(doc! { "sequenceSnapshot": { "Name": &name } });
    assert_eq!(by_filter.get_array("snapshots").unwrap(), &[Bson::Document(by_name.clone())]);
    assert_eq!(
        (by_name.get_str("Name").ok(), by_name.get_bool("Internal").ok()),
        (Some(name.as_str()), Some(true))
    );
    shop.is(doc! { "sequenceCurrent": &name }, doc! { "CurrentValue": 1_i64 });
    let handle = shop.db.sequence(&name);
    assert_eq!(handle.snapshot().run().unwrap().last_used, Some(1));
    assert_eq!(handle.safe_watermark().run().unwrap(), Some(1));
    assert_eq!(handle.gaps().run().unwrap().len(), 0);
    for refused in [
        doc! { "sequenceNext": &name },
        doc! { "sequenceSetCurrent": &name, "value": 50 },
        doc! { "sequenceRestart": &name, "value": 1 },
        doc! { "alterSequence": &name, "options": { "Increment": 5 } },
        doc! { "renameSequence": &name, "to": "t" },
        doc! { "dropSequence": &name },
    ] {
        shop.refuses(refused, INVALID, "belong to auto-increment fields");
    }
    assert!(handle.next_value().run().is_err_and(|error| error.sequoia_code() == Some(-6)));
    assert_eq!(shop.generated(), doc! { "n": 2_i64 });
    shop.refuses(doc! { "sequenceSnapshot": "SYS_9_n_SEQ" }, NOT_FOUND, "there is no sequence SYS_9_n_SEQ");
}

/// The names of the sequences whose snapshots match.
#[track_caller]
fn matching(shop: &Shop, filter: Document) -> Vec<String> {
    let reply = shop.reply(doc! { "sequenceSnapshot": filter });
    let snapshots = reply.get_array("snapshots").expect("a list").iter();
    snapshots.map(|one| one.as_document().expect("one").get_str("Name").expect("text").to_owned()).collect()
}

#[test]
fn sequence_snapshot_shows_one_by_name() {
    let shop = Shop::with(doc! { "StartValue": 5, "AcquireSize": 10, "CacheSize": 20 });
    shop.next();
    let reply = shop.reply(doc! { "sequenceSnapshot": "s" });
    let mut snapshot = reply.get_document("snapshot").unwrap().clone();
    assert!(snapshot.remove("_id").unwrap().as_object_id().is_some());
    let expected = doc! {
        "Internal": false, "ID": 1_i64, "CLUniqueID": 0_i64, "Name": "s", "Version": 0_i64, "CurrentValue": 24_i64,
        "StartValue": 5_i64, "MinValue": 1_i64, "MaxValue": i64::MAX, "Increment": 1, "CacheSize": 20,
        "AcquireSize": 10, "Cycled": false, "CycledCount": 0, "Initial": false, "Contract": "fast", "LastUsed": 5_i64,
        "UsedUpTo": 5_i64, "Remaining": i64::MAX - 5, "Exhausted": false, "Reservations": 1_i64, "Lost": 0_i64,
    };
    assert_eq!(snapshot, expected);
    assert_eq!(reply.len(), 1);
    shop.refuses(doc! { "sequenceSnapshot": "t" }, NOT_FOUND, "there is no sequence t");
    shop.refuses(doc! { "sequenceSnapshot": "SYS1" }, NOT_FOUND, "there is no sequence SYS1");
    shop.refuses(doc! { "sequenceSnapshot": "$s" }, INVALID, "it starts with $");
    let words = "sequenceSnapshot must be the name of a sequence or a filter, not the integer 5";
    shop.refuses(doc! { "sequenceSnapshot": 5 }, WRONG_TYPE, words);
    shop.refuses(doc! { "sequenceSnapshot": null }, INVALID, "sequenceSnapshot is required");
}

#[test]
fn sequence_snapshot_shows_all_that_match_a_filter() {
    let shop = Shop::with(doc! { "Increment": 5 });
    shop.is(doc! { "createSequence": "r", "options": { "Cycled": true } }, doc! {});
    shop.is(doc! { "create": "a", "autoIncrement": { "Field": "n" } }, doc! {});
    let other = shop.fixture.client.database("other");
    other.create_sequence("elsewhere").run().unwrap();
    shop.next();
    let internal = shop.sequences().remove(0);
    assert_eq!(matching(&shop, doc! {}), [internal.as_str(), "r", "s"], "ascending by name");
    assert_eq!(matching(&shop, doc! { "Internal": true }), [internal.as_str()]);
    assert_eq!(matching(&shop, doc! { "Name": "s" }), ["s"]);
    assert_eq!(matching(&shop, doc! { "Increment": { "$gte": 5 }, "Initial": false }), ["s"]);
    assert_eq!(matching(&shop, doc! { "$or": [{ "Cycled": true }, { "Name": "s" }] }), ["r", "s"]);
    assert_eq!(matching(&shop, doc! { "Name": "none" }), [""; 0]);
    let id = shop.db.sequence("r").snapshot().run().unwrap().object_id;
    assert_eq!(matching(&shop, doc! { "_id": id }), ["r"]);
    let whole = shop.reply(doc! { "sequenceSnapshot": { "Name": "s" } });
    let one = shop.reply(doc! { "sequenceSnapshot": "s" });
    assert_eq!(whole.get_array("snapshots").unwrap()[..], [one.get("snapshot").unwrap().clone()]);
    crate::refused(shop.run(doc! { "sequenceSnapshot": { "Name": { "$bogus": 1 } } }), 2, "$bogus");
}

#[test]
fn sequence_next_gives_up_to_n_values() {
    let shop = Shop::with(doc! { "MaxValue": 25, "AcquireSize": 10, "CacheSize": 10, "Increment": 2 });
    let next = |n: Bson| doc! { "sequenceNext": "s", "n": n };
    let gives = |first: i64, count: i32| doc! { "NextValue": first, "ReturnNum": count, "Increment": 2 };
    shop.is(doc! { "sequenceNext": "s" }, gives(1, 1));
    shop.is(next(bson!(3)), gives(3, 3));
    shop.is(next(bson!(3_i64)), gives(9, 3));
    shop.is(next(Bson::Null), gives(15, 1));
    shop.is(doc! { "sequenceNext": "s", "n": 5, "writeConcern": { "j": true } }, gives(17, 2));
    for n in [bson!(0), bson!(-1), bson!(2_147_483_648_i64), bson!(i64::MIN)] {
        shop.refuses(next(n), INVALID, "count must be within 1 and 2147483647");
    }
    for (value, found) in no_integers() {
        shop.refuses(next(value), WRONG_TYPE, &format!("n must be a 32-bit or 64-bit integer, not {found}"));
    }
    shop.is(next(bson!(100)), gives(21, 3));
    shop.refuses(next(bson!(1)), EXCEEDED, "the sequence has no value left: it does not go beyond 25");
    shop.refuses(doc! { "sequenceNext": "t" }, NOT_FOUND, "there is no sequence t");
    shop.refuses(doc! { "sequenceNext": "SYS_1_n_SEQ" }, INVALID, "belong to auto-increment fields");
    shop.refuses(doc! { "sequenceNext": "" }, INVALID, "it is empty");
    shop.refuses(doc! { "sequenceNext": 5 }, WRONG_TYPE, "sequenceNext must be a string");
}

#[test]
fn sequence_current_gives_the_last_value() {
    let shop = Shop::with(doc! {});
    shop.refuses(doc! { "sequenceCurrent": "s" }, NEVER_USED, "the sequence has not been used yet");
    shop.next();
    shop.next();
    shop.is(doc! { "sequenceCurrent": "s" }, doc! { "CurrentValue": 2_i64 });
    shop.refuses(doc! { "sequenceCurrent": "t" }, NOT_FOUND, "there is no sequence t");
    shop.refuses(doc! { "sequenceCurrent": "SYS1" }, NOT_FOUND, "there is no sequence SYS1");
    shop.refuses(doc! { "sequenceCurrent": 1 }, WRONG_TYPE, "sequenceCurrent must be a string");
}

#[test]
fn sequence_set_current_moves_forward() {
    let shop = Shop::with(doc! {});
    let set = |value: Bson| doc! { "sequenceSetCurrent": "s", "value": value };
    shop.is(set(bson!(500)), doc! {});
    assert_eq!(shop.next(), 501);
    shop.is(set(bson!(5000_i64)), doc! {});
    assert_eq!(shop.next(), 5001);
    shop.refuses(set(bson!(5001)), USED, "5001 is not ahead of the sequence");
    shop.refuses(set(bson!(-9)), USED, "-9 is not ahead of the sequence");
    for (value, found) in no_integers() {
        shop.refuses(
            set(value),
            WRONG_TYPE,
            &format!("value must be a 32-bit or 64-bit integer, not {found}"),
        );
    }
    shop.refuses(set(Bson::Null), INVALID, "value is required");
    shop.refuses(doc! { "sequenceSetCurrent": "s" }, INVALID, "value is required");
    shop.refuses(doc! { "sequenceSetCurrent": "t", "value": 1 }, NOT_FOUND, "there is no sequence t");
    shop.refuses(
        doc! { "sequenceSetCurrent": "SYS1", "value": 1 },
        INVALID,
        "belong to auto-increment fields",
    );
    shop.refuses(
        doc! { "sequenceSetCurrent": 1, "value": 1 },
        WRONG_TYPE,
        "sequenceSetCurrent must be a string",
    );
    assert_eq!(shop.next(), 5002);
}

#[test]
fn sequence_restart_gives_its_value_next() {
    let shop = Shop::with(doc! {});
    shop.next();
    let restart = |value: Bson| doc! { "sequenceRestart": "s", "value": value };
    shop.is(restart(bson!(70_i64)), doc! {});
    assert_eq!(shop.next(), 70);
    shop.is(restart(bson!(7)), doc! {});
    assert_eq!(shop.next(), 7);
    shop.refuses(restart(bson!(0)), INVALID, "value must be within MinValue 1 and MaxValue");
    for (value, found) in no_integers() {
        let words = format!("value must be a 32-bit or 64-bit integer, not {found}");
        shop.refuses(restart(value), WRONG_TYPE, &words);
    }
    shop.refuses(doc! { "sequenceRestart": "s" }, INVALID, "value is required");
    shop.refuses(doc! { "sequenceRestart": "t", "value": 1 }, NOT_FOUND, "there is no sequence t");
    shop.refuses(doc! { "sequenceRestart": "SYS1", "value": 1 }, INVALID, "belong to auto-increment fields");
    shop.refuses(doc! { "sequenceRestart": 1, "value": 1 }, WRONG_TYPE, "sequenceRestart must be a string");
    assert_eq!(shop.next(), 8);
}

#[test]
fn truncate_starts_fields_again() {
    let shop = Shop::numbered(
        bson!([{ "Field": "n", "StartValue": 5 }, { "Field": "m", "OnTruncate": "continue" }]),
    );
    shop.generated();
    shop.generated();
    shop.is(doc! { "truncate": "a" }, doc! { "n": 2 });
    assert_eq!(shop.generated(), doc! { "m": 3_i64, "n": 5_i64 });
    crate::refused(shop.run(doc! { "truncate": "b" }), 26, "shop.b");
    crate::refused(shop.run(doc! { "truncate": 5 }), 73, "truncate");
}

#[test]
fn drop_takes_the_sequences_of_fields_along() {
    let shop = Shop::numbered(bson!([{ "Field": "n" }, { "Field": "m" }]));
    shop.is(doc! { "createSequence": "s" }, doc! {});
    assert_eq!(shop.sequences().len(), 3);
    shop.reply(doc! { "drop": "a" });
    assert_eq!(shop.sequences(), ["s"]);
    shop.is(doc! { "create": "a", "autoIncrement": { "Field": "n" } }, doc! {});
    assert_eq!(shop.generated(), doc! { "n": 1_i64 });
    shop.is(doc! { "dropDatabase": 1 }, doc! { "dropped": "shop" });
    assert_eq!(shop.sequences(), [""; 0]);
}

#[test]
fn insert_tells_the_values_of_documents_that_are_stored() {
    let shop = Shop::numbered(bson!([{ "Field": "n" }, { "Field": "b", "StartValue": 20 }]));
    let documents =
        bson!([{ "_id": 1 }, { "_id": 1 }, { "_id": 2, "n": 50 }, { "_id": 3, "n": "x", "b": null }]);
    let reply = shop.reply(doc! { "insert": "a", "documents": documents, "ordered": false });
    let generated = bson!([{ "b": 20_i64, "n": 1_i64 }, { "b": 22_i64 }, {}]);
    assert_eq!((reply.get_i32("n").ok(), reply.get("generated")), (Some(3), Some(&generated)));
    assert_eq!(reply.get_i64("lastGenerateID").ok(), Some(20), "the first field by name");
    assert_eq!(reply.get_array("writeErrors").map(Vec::len).ok(), Some(1));
    shop.is(doc! { "insert": "a", "documents": [{ "_id": 4, "n": 1, "b": 2 }] }, doc! { "n": 1 });
}

#[test]
fn insert_is_refused_as_a_whole_for_what_a_field_refuses() {
    let shop = Shop::numbered(bson!([
        { "Field": "a.n", "Generated": "strict" },
        { "Field": "m", "Generated": "alwaysStrict", "MaxValue": 2, "CacheSize": 1, "AcquireSize": 1 },
    ]));
    let refuses = |document: Document, refusal: Refusal, words: &str| {
        shop.refuses(doc! { "insert": "a", "documents": [{}, document] }, refusal, words);
    };
    refuses(
        doc! { "a": { "n": 1.0 } },
        INVALID,
        "a.n must be a 32-bit or 64-bit integer, or absent, not a double",
    );
    refuses(doc! { "a": [] }, INVALID, "a must be an embedded document, not an array");
    refuses(doc! { "m": 1 }, INVALID, "m must be absent, because its values are always generated");
    shop.refuses(doc! { "insert": "a", "documents": [{}, {}, {}] }, EXCEEDED, "no value left");
    assert_eq!(shop.stored(), NOTHING);
}

/// A batch of more than a commit is rejected from the document on for which no value is left; the numbers of the rejection
/// were missing there.
#[test]
fn insert_of_a_part_names_the_refusal_in_write_errors() {
    let gapless =
        bson!({ "Field": "n", "Contract": "gapless", "MaxValue": 9, "CacheSize": 1, "AcquireSize": 1 });
    for (ordered, refused) in [(true, 1), (false, 5)] {
        let shop = Shop::numbered(gapless.clone());
        let documents = vec![doc! { "pad": "p".repeat(1 << 20) }; 12];
        let reply = shop.reply(doc! { "insert": "a", "documents": documents, "ordered": ordered });
        let errors = reply.get_array("writeErrors").expect("refusals");
        assert_eq!((reply.get_i32("n").ok(), errors.len()), (Some(7), refused));
        for error in errors {
            let error = error.as_document().expect("one");
            assert_eq!(error.get_i32("sequoiaCode").ok(), Some(-325), "{error}");
            assert_eq!(error.get_str("sequoiaName").ok(), Some("SDB_SEQUENCE_EXCEEDED"));
            assert_eq!(error.get_str("codeName").ok(), Some("BadValue"));
        }
        assert_eq!(shop.generated(), doc! { "n": 8_i64 }, "what was refused took no number");
    }
}

#[test]
fn a_replacement_keeps_fields_that_it_does_not_name() {
    let shop = Shop::numbered(bson!([{ "Field": "n" }, { "Field": "a.b" }]));
    shop.reply(doc! { "insert": "a", "documents": [{ "_id": 1, "x": 1 }] });
    let update = |update: Bson| doc! { "update": "a", "updates": [{ "q": { "_id": 1 }, "u": update }] };
    shop.is(update(bson!({ "y": 1 })), doc! { "n": 1, "nModified": 1 });
    assert_eq!(shop.stored(), [doc! { "y": 1, "a": { "b": 1_i64 }, "n": 1_i64 }]);
    let modify =
        doc! { "findAndModify": "a", "query": { "_id": 1 }, "update": { "n": 70, "z": 1 }, "new": true };
    let value = shop.reply(modify);
    let value = value.get_document("value").unwrap();
    assert_eq!(*value, doc! { "_id": 1, "n": 70, "z": 1, "a": { "b": 1_i64 } });
    shop.is(update(bson!({ "a": {} })), doc! { "n": 1, "nModified": 1 });
    assert_eq!(shop.stored(), [doc! { "a": {}, "n": 70 }], "a parent that is named is the replacement's");
    assert_eq!(shop.generated(), doc! { "a.b": 2_i64, "n": 2_i64 }, "the sequences did not move");
}

/// A dump of the store would otherwise not know of these sequences.
#[test]
fn a_database_with_a_sequence_alone_is_listed() {
    let shop = Shop::with(doc! {});
    let client = &shop.fixture.client;
    client.database("tickets").create_sequence("t").run().unwrap();
    let listed = client.list_database_names().run().unwrap();
    assert!(listed.contains(&"tickets".to_owned()), "{listed:?}");
    client.database("tickets").run_command(doc! { "dropDatabase": 1 }).run().unwrap();
    assert!(!client.list_database_names().run().unwrap().contains(&"tickets".to_owned()));
}

/// Another acquirer holds later values than the shared one, which `LastUsed` is about.
#[test]
fn used_up_to_counts_values_of_every_acquirer() {
    let shop = Shop::with(doc! { "CacheSize": 20, "AcquireSize": 10 });
    assert_eq!(shop.next(), 1);
    let other = shop.fixture.client.acquirer();
    assert_eq!(other.database("shop").sequence("s").next_value().run().unwrap(), 11);
    let snapshot = shop.fixture.client.database("shop").sequence("s").snapshot().run().unwrap();
    assert_eq!((snapshot.last_used, snapshot.used_up_to), (Some(1), Some(11)));
    drop(other);
}
