//! Numbers of transactions: the turn that a transaction keeps, what waits for it, and what becomes of numbers that are not stored.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cairndb::bson::{Document, doc};
use cairndb::{
    AutoIncrement, Client, ClientSession, Collection, Contract, ErrorKind, TRANSIENT_TRANSACTION_ERROR,
    ValueVerdict,
};
use cairndb_tests::race::race;
use cairndb_tests::scratch::Scratch;

use crate::transactions::assert_code;
use crate::verify_clean;

/// The time that others may need, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// Invoices whose field `n` numbers itself, and their lines.
struct Books {
    // Dropped first: the folder goes last.
    invoices: Collection<Document>,
    lines: Collection<Document>,
    client: Client,
    scratch: Scratch,
}

impl Books {
    #[track_caller]
    fn with(contract: Contract) -> Self {
        let scratch = Scratch::new();
        let books = Self::of(scratch.open(), scratch);
        books.number("invoices", contract);
        books.client.database("test").create_collection("lines").run().expect("made");
        books
    }

    fn of(client: Client, scratch: Scratch) -> Self {
        let collection = |name| client.database("test").collection(name);
        Self { invoices: collection("invoices"), lines: collection("lines"), client, scratch }
    }

    fn reopened(self) -> Self {
        self.client.close().expect("closed");
        Self::of(self.scratch.open(), self.scratch)
    }

    #[track_caller]
    fn number(&self, collection: &str, contract: Contract) -> Collection<Document> {
        let number = AutoIncrement::builder().field("n").contract(contract).build();
        self.client
            .database("test")
            .create_collection(collection)
            .auto_increment(number)
            .run()
            .expect("made");
        self.client.database("test").collection(collection)
    }

    fn begin(&self) -> ClientSession {
        let mut session = self.client.start_session().run().expect("started");
        session.start_transaction().run().expect("started");
        session
    }

    /// The invoices' numbers, ascending.
    fn numbers(&self) -> Vec<i64> {
        numbers_of(&self.invoices)
    }

    /// First, last and cause of each gap.
    fn gaps(&self) -> Vec<(i64, i64, String)> {
        let gaps = self.invoices.auto_increment("n").gaps().expect("a list");
        gaps.into_iter().map(|gap| (gap.first, gap.last, gap.cause)).collect()
    }
}

fn numbers_of(collection: &Collection<Document>) -> Vec<i64> {
    let found = collection.find(doc! {}).sort(doc! { "n": 1 }).run().expect("opened");
    found.map(|found| found.expect("read").get_i64("n").expect("a number")).collect()
}

/// Inserts as a statement, or plainly. Returns the number.
#[track_caller]
fn insert(collection: &Collection<Document>, session: Option<&mut ClientSession>) -> i64 {
    let insert = collection.insert_one(doc! {});
    let inserted = match session {
        Some(session) => insert.session(session).run(),
        None => insert.run(),
    };
    inserted.expect("inserted").generated.get("n").expect("it was numbered")
}

#[test]
fn an_invoice_gets_its_number_before_its_lines() {
    let books = Books::with(Contract::Gapless);
    // A number that is given back comes again.
    let rounds = [(1, true), (2, false), (2, true), (3, false), (3, true)];
    for (round, (expected, commits)) in (0_i32..).zip(rounds) {
        let mut session = books.begin();
        let number = insert(&books.invoices, Some(&mut session));
        let lines = (0..3).map(|line| doc! { "invoice": number, "line": line, "round": round });
        books.lines.insert_many(lines).session(&mut session).run().expect("staged");
        assert_eq!(number, expected);
        if commits {
            session.commit_transaction().run().expect("committed");
        } else {
            session.abort_transaction().run().expect("aborted");
        }
    }
    assert_eq!((books.numbers(), books.gaps()), (vec![1, 2, 3], vec![]));
    assert_eq!(
        books.lines.count_documents(doc! { "round": { "$in": [0, 2, 4] } }).run().expect("counted"),
        9
    );
    let books = books.reopened();
    assert_eq!(insert(&books.invoices, None), 4);
    verify_clean(&books.client);
}

#[test]
fn a_plain_insert_waits_for_the_turn() {
    for contract in [Contract::Gapless, Contract::Ordered] {
        for commits in [true, false] {
            let books = Books::with(contract);
            let mut session = books.begin();
            assert_eq!(insert(&books.invoices, Some(&mut session)), 1);
            assert_eq!(insert(&books.invoices, Some(&mut session)), 2);
            let is_done = AtomicBool::new(false);
            let plain = std::thread::scope(|scope| {
                let plain = scope.spawn(|| {
                    let number = insert(&books.invoices, None);
                    is_done.store(true, Ordering::SeqCst);
                    number
                });
                for _ in 0..200 {
                    std::thread::park_timeout(Duration::from_micros(500));
                }
                assert!(!is_done.load(Ordering::SeqCst), "it has waited for nothing");
                // Reads of the sequence do not wait.
                assert_eq!(books.invoices.auto_increment("n").safe_watermark().expect("read"), None);
                assert!(!books.invoices.auto_increment("n").trace(2).expect("read").settled);
                if commits {
                    session.commit_transaction().run().expect("committed");
                } else {
                    session.abort_transaction().run().expect("aborted");
                }
                plain.join().expect("it gets its turn")
            });
            let expected = match (contract, commits) {
                (Contract::Gapless, false) => (1, vec![1], vec![]),
                (_, true) => (3, vec![1, 2, 3], vec![]),
                (_, false) => (3, vec![3], vec![(1, 2, "aborted".to_owned())]),
            };
            assert_eq!((plain, books.numbers(), books.gaps()), expected, "{contract:?}, {commits}");
            assert_eq!(books.invoices.auto_increment("n").safe_watermark().expect("read"), Some(plain));
        }
    }
}

/// The gaps of aborted transactions say so, and outlast the process.
#[test]
fn numbers_of_aborted_transactions_are_gaps() {
    for contract in [Contract::Fast, Contract::Ordered] {
        let books = Books::with(contract);
        let mut session = books.begin();
        insert(&books.invoices, Some(&mut session));
        let many = books.invoices.insert_many([doc! {}, doc! {}]).session(&mut session).run();
        assert_eq!(many.expect("staged").inserted_ids.len(), 2);
        session.abort_transaction().run().expect("aborted");
        let mut session = books.begin();
        assert_eq!(insert(&books.invoices, Some(&mut session)), 4);
        session.commit_transaction().run().expect("committed");
        let expected = vec![(1, 3, "aborted".to_owned())];
        assert_eq!((books.numbers(), books.gaps()), (vec![4], expected.clone()), "{contract:?}");
        let trace = books.invoices.auto_increment("n").trace(2).expect("read");
        assert_eq!((trace.verdict, trace.settled), (ValueVerdict::Lost, true));
        let books = books.reopened();
        assert_eq!(books.gaps(), expected);
        assert_eq!(insert(&books.invoices, None), 5);
        verify_clean(&books.client);
    }
}

/// A conflict at the commit is an abort like any other.
#[test]
fn a_conflict_gives_the_number_back() {
    let books = Books::with(Contract::Gapless);
    books.lines.insert_one(doc! { "_id": 1, "n": 0 }).run().expect("stored");
    let add = || books.lines.update_one(doc! { "_id": 1 }, doc! { "$inc": { "n": 1 } });
    let mut session = books.begin();
    assert_eq!(insert(&books.invoices, Some(&mut session)), 1);
    add().session(&mut session).run().expect("staged");
    add().run().expect("written");
    assert_code(session.commit_transaction().run(), 112);
    assert_eq!((insert(&books.invoices, None), books.gaps()), (1, vec![]));
    // A limit of the commit that is over by then.
    let mut session = books.client.start_session().run().expect("started");
    session.start_transaction().max_commit_time(Duration::from_nanos(1)).run().expect("started");
    assert_eq!(insert(&books.invoices, Some(&mut session)), 2);
    assert_code(session.commit_transaction().run(), 50);
    assert_eq!((insert(&books.invoices, None), books.numbers()), (2, vec![1, 2]));
}

#[test]
fn a_session_that_is_dropped_gives_the_turn_back() {
    let books = Books::with(Contract::Gapless);
    let mut session = books.begin();
    assert_eq!(insert(&books.invoices, Some(&mut session)), 1);
    // In another thread than the one that took it.
    std::thread::spawn(move || drop(session)).join().expect("dropped");
    assert_eq!(insert(&books.invoices, None), 1);
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut session = books.begin();
        assert_eq!(insert(&books.invoices, Some(&mut session)), 2);
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(refused.is_err());
    assert_eq!(insert(&books.invoices, None), 2);
}

#[test]
fn a_transaction_that_is_over_gives_the_turn_back() {
    let scratch = Scratch::new();
    let client = Client::builder().transaction_lifetime(Duration::from_secs(3)).open(scratch.path());
    let books = Books::of(client.expect("made"), scratch);
    books.number("invoices", Contract::Gapless);
    let mut session = books.begin();
    assert_eq!(insert(&books.invoices, Some(&mut session)), 1);
    // No call of the session: this waits for the end of its time.
    assert_eq!(insert(&books.invoices, None), 1);
    let error = assert_code(session.commit_transaction().run(), 251);
    assert!(error.contains_label(TRANSIENT_TRANSACTION_ERROR), "{error:?}");
    assert_eq!(books.numbers(), [1]);
}

/// Two transactions that want two turns in different orders do not wait for each other.
#[test]
fn turns_are_waited_for_in_one_order() {
    let books = Books::with(Contract::Gapless);
    // The second sequence has the higher id.
    let later = books.number("later", Contract::Ordered);
    let (mut one, mut two) = (books.begin(), books.begin());
    assert_eq!((insert(&books.invoices, Some(&mut one)), insert(&later, Some(&mut two))), (1, 1));
    // Against the order it is tried once.
    let error = assert_code(books.invoices.insert_one(doc! {}).session(&mut two).run(), 112);
    assert!(error.contains_label(TRANSIENT_TRANSACTION_ERROR), "{error:?}");
    assert_eq!(insert(&later, Some(&mut one)), 2, "the other one has aborted");
    // In the order it is waited for.
    let mut three = books.begin();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let number = insert(&later, Some(&mut three));
            three.commit_transaction().run().expect("committed");
            number
        });
        for _ in 0..20 {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        one.commit_transaction().run().expect("committed");
        assert_eq!(waiting.join().expect("it gets its turn"), 3);
    });
    // A free turn is taken against the order too.
    let mut four = books.begin();
    assert_eq!((insert(&later, Some(&mut four)), insert(&books.invoices, Some(&mut four))), (4, 2));
    four.commit_transaction().run().expect("committed");
    assert_eq!((books.numbers(), numbers_of(&later)), (vec![1, 2], vec![2, 3, 4]));
}

#[test]
fn a_turn_is_not_waited_for_long() {
    let books = Books::with(Contract::Gapless);
    let (mut one, mut two) = (books.begin(), books.begin());
    assert_eq!(insert(&books.invoices, Some(&mut one)), 1);
    let began = Instant::now();
    let error = assert_code(books.invoices.insert_one(doc! {}).session(&mut two).run(), 24);
    assert!(began.elapsed() >= Duration::from_secs(5) && error.contains_label(TRANSIENT_TRANSACTION_ERROR));
    // A limit of the statement ends the wait before.
    let mut three = books.begin();
    let upsert = books.invoices.update_one(doc! { "_id": 7 }, doc! { "$set": { "a": 1 } }).upsert(true);
    let limited = upsert.max_time(Duration::from_millis(30)).session(&mut three).run();
    assert_code(limited, 50);
    one.commit_transaction().run().expect("committed");
}

/// It may be tried again, and has no number then.
#[test]
fn a_field_that_is_dropped_while_its_turn_is_waited_for_is_a_conflict() {
    for contract in [Contract::Ordered, Contract::Gapless] {
        let books = Books::with(contract);
        let (mut one, mut two) = (books.begin(), books.begin());
        assert_eq!(insert(&books.invoices, Some(&mut one)), 1);
        books.lines.find_one(doc! {}).session(&mut two).run().expect("it has begun");
        let waited = std::thread::scope(|scope| {
            let dropping = scope.spawn(|| books.invoices.drop_auto_increment("n").run());
            for _ in 0..20 {
                std::thread::park_timeout(Duration::from_millis(1));
            }
            let waiting = scope.spawn(|| {
                let waited = books.invoices.insert_one(doc! {}).session(&mut two).run();
                // If it has got the turn, the field waits for its end.
                two.abort_transaction().run().ok();
                waited
            });
            for _ in 0..20 {
                std::thread::park_timeout(Duration::from_millis(1));
            }
            one.abort_transaction().run().expect("aborted");
            let waited = waiting.join().expect("no panic");
            dropping.join().expect("no panic").expect("dropped");
            waited
        });
        if let Err(error) = waited {
            assert!(error.contains_label(TRANSIENT_TRANSACTION_ERROR), "{error:?}");
        }
        let mut again = books.begin();
        let inserted = books.invoices.insert_one(doc! {}).session(&mut again).run().expect("no number");
        assert_eq!(inserted.generated.get("n"), None);
        again.commit_transaction().run().expect("committed");
    }
}

/// Closing does not wait for a transaction, nor for the writer that waits for its turn.
#[test]
fn a_store_is_closed_while_a_writer_waits_for_the_turn() {
    let books = Books::with(Contract::Gapless);
    let mut session = books.begin();
    assert_eq!(insert(&books.invoices, Some(&mut session)), 1);
    let began = Instant::now();
    std::thread::scope(|scope| {
        let plain = scope.spawn(|| books.invoices.insert_one(doc! {}).run());
        for _ in 0..50 {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        books.client.close().expect("closed");
        match plain.join().expect("it ends") {
            Ok(inserted) => assert_eq!(inserted.generated.get("n"), Some(1)),
            Err(error) => assert!(matches!(error.kind(), ErrorKind::Closed), "{error:?}"),
        }
    });
    assert!(began.elapsed() < PATIENCE);
    session.commit_transaction().run().expect_err("the store is closed");
    let books = Books::of(books.scratch.open(), books.scratch);
    assert!(books.numbers().len() <= 1);
    verify_clean(&books.client);
}

#[test]
fn what_documents_bring_moves_the_numbering_of_a_transaction() {
    let books = Books::with(Contract::Gapless);
    for commits in [false, true] {
        let mut session = books.begin();
        let inserted = books
            .invoices
            .insert_many([doc! {}, doc! { "n": 5_i64 }, doc! {}])
            .session(&mut session)
            .run()
            .expect("staged");
        let numbers: Vec<Option<i64>> = (0..3).map(|at| inserted.generated.get(&at)?.get("n")).collect();
        assert_eq!(numbers, [Some(1), None, Some(6)]);
        assert_eq!(insert(&books.invoices, Some(&mut session)), 7);
        if commits {
            session.commit_transaction().run().expect("committed");
        } else {
            session.abort_transaction().run().expect("aborted");
        }
    }
    let gap = vec![(2, 4, "explicitValue".to_owned())];
    assert_eq!((books.numbers(), books.gaps()), (vec![1, 5, 6, 7], gap));
    assert_eq!(insert(&books.invoices, None), 8);
    verify_clean(&books.client);
}

/// Numbers that other documents have are passed, as by plain inserts, and no transaction meets the same two for ever.
#[test]
fn a_transaction_passes_numbers_in_use() {
    let books = Books::with(Contract::Gapless);
    let unique = cairndb::IndexOptions::builder().unique(true).build();
    let index = cairndb::IndexModel::builder().keys(doc! { "n": 1 }).options(unique).build();
    books.invoices.create_index(index).run().expect("made");
    books.invoices.insert_many((1..=5_i64).map(|n| doc! { "n": n })).run().expect("stored");
    let back = AutoIncrement::try_from(doc! { "Field": "n", "CurrentValue": 1 }).expect("an option");
    books.invoices.alter_auto_increment(back).run().expect("altered");
    let mut refused = 0;
    let number = loop {
        let mut session = books.begin();
        match books.invoices.insert_one(doc! {}).session(&mut session).run() {
            Ok(inserted) => {
                session.commit_transaction().run().expect("committed");
                break inserted.generated.get("n").expect("numbered");
            }
            Err(error) => assert!(error.is_duplicate_key(), "{error:?}"),
        }
        refused += 1;
        assert!(refused < 5, "it meets the same numbers again");
    };
    assert_eq!((number, books.numbers()), (6, vec![1, 2, 3, 4, 5, 6]));
    verify_clean(&books.client);
}

/// Many sessions and plain writers at once: each number once, and none is missing.
#[test]
fn numbers_of_sessions_and_plain_writers_have_no_gap() {
    let books = Books::with(Contract::Gapless);
    race(0..4, |thread: u32| {
        for round in 0..25 {
            if thread == 0 {
                insert(&books.invoices, None);
            } else {
                insert_two(&books, (round + thread).is_multiple_of(3));
            }
        }
    });
    let numbers = books.numbers();
    assert_eq!(numbers, (1..).take(numbers.len()).collect::<Vec<i64>>());
    assert_eq!(books.gaps(), []);
    verify_clean(&books.client);
}

/// Inserts two invoices in a transaction, which is aborted or committed.
fn insert_two(books: &Books, aborts: bool) {
    let mut session = books.begin();
    insert(&books.invoices, Some(&mut session));
    insert(&books.invoices, Some(&mut session));
    let ended = if aborts { session.abort_transaction().run() } else { session.commit_transaction().run() };
    ended.expect("nothing is in its way");
}
