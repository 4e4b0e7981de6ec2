//! Live queries through random histories of a collection that is also emptied, dropped, renamed and replaced: after every batch the
//! set is the result of the plain search at one moment, never at an earlier one than before, and in the end at the last one.
//!
//! `CAIRNDB_LIVE_HISTORIES` says how many histories, `CAIRNDB_SEED` replays their choices.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};
use std::time::{Duration, Instant};

use cairndb::bson::{Bson, Document, doc};
use cairndb::{
    Client, Collation, CollationStrength, Collection, Database, IndexModel, IndexOptions, LiveChange,
    LiveQuery, PlantedFault,
};
use cairndb_tests::choices::{Choices, SEED_VARIABLE, number_from_environment, part, seed};
use cairndb_tests::race::pause;
use cairndb_tests::scratch::{Scratch, small};

const HISTORIES_DEFAULT: u64 = 60;
/// Histories in which a planted fault must be found. Nearly all show it.
const FAULTY_HISTORIES_MAX: u64 = 20;
const STEPS: u64 = 40;
const QUERIES: usize = 5;
const PATIENCE: Duration = Duration::from_secs(20);
/// What no change tells of does not come later either. Long enough for what is whole on a busy machine: nearly all histories show it.
const FAULTY_PATIENCE: Duration = Duration::from_secs(2);
/// The number of the rules by which bytes are compared.
const SIMPLE: usize = 0;
/// The number of `rules`.
const RULES: u64 = 4;

/// One of some rules by which texts are compared.
fn rules(number: usize) -> Collation {
    match number {
        SIMPLE => Collation::simple(),
        1 => Collation::with_locale("en").strength(CollationStrength::Secondary),
        2 => Collation::with_locale("de").strength(CollationStrength::Primary),
        _ => {
            let mut numbers = Collation::with_locale("en");
            numbers.numeric_ordering = Some(true);
            numbers
        }
    }
}

fn any_rules(choices: &mut Choices) -> usize {
    choices.index(usize::try_from(RULES).expect("a small number"))
}

fn text(choices: &mut Choices) -> &'static str {
    const TEXTS: [&str; 10] = ["ada", "Ada", "ADA", "ädä", "bob", "Bob", "item 2", "item 10", "Item 10", ""];
    choices.pick::<&str>(&TEXTS)
}

fn small_number(choices: &mut Choices) -> i32 {
    i32::try_from(choices.below(6)).expect("a small number")
}

/// Few documents, so that histories meet. Some ids differ in their case alone.
fn id(choices: &mut Choices) -> Bson {
    if choices.one_in(4) {
        (*choices.pick::<&str>(&["a", "A", "b", "á"])).into()
    } else {
        Bson::Int32(i32::try_from(choices.below(16)).expect("a small number"))
    }
}

fn condition(choices: &mut Choices) -> Document {
    let (number, word, id) = (small_number(choices), text(choices), id(choices));
    match choices.below(14) {
        0 => doc! { "a": { "$gte": number } },
        1 => doc! { "a": { "$lt": number } },
        2 => doc! { "tags": number },
        3 => doc! { "tags": word },
        4 => doc! { "tags": { "$elemMatch": { "$gte": number, "$lt": number + 2 } } },
        5 => doc! { "tags": { "$exists": false } },
        6 => doc! { "name": word },
        7 => doc! { "name": { "$gte": word } },
        8 => doc! { "name": { "$in": [word, text(choices), Bson::Null] } },
        9 => doc! { "name": { "$not": { "$lt": word } } },
        10 => doc! { "_id": id },
        11 => doc! { "_id": { "$gt": id } },
        12 => doc! { "$expr": { "$eq": ["$name", word] } },
        _ => doc! { "a": { "$gte": 2 }, "name": { "$lte": word } },
    }
}

fn filter(choices: &mut Choices) -> Document {
    match choices.below(5) {
        0 => doc! {},
        1 => doc! { "$and": [condition(choices), condition(choices)] },
        2 => doc! { "$or": [condition(choices), condition(choices)] },
        _ => condition(choices),
    }
}

/// A search, which is the same however often it is made.
#[derive(Debug)]
struct Search {
    filter: Document,
    sort: Document,
    projection: Document,
    limit: i64,
    skip: u64,
    /// Else it has those of the collection.
    rules: Option<usize>,
}

impl Search {
    fn any(choices: &mut Choices) -> Self {
        let limit = if choices.one_in(2) { 1 + choices.below(5).cast_signed() } else { 0 };
        let skip = if limit > 0 { choices.below(3) } else { 0 };
        // With a limit it is decided which of two equal documents comes first.
        let sort = match choices.below(6) {
            0 if limit == 0 => doc! {},
            0 | 1 => doc! { "a": -1, "_id": 1 },
            2 => doc! { "name": 1, "_id": -1 },
            3 => doc! { "tags": 1, "_id": 1 },
            4 => doc! { "a": 1, "name": -1, "_id": 1 },
            _ => doc! { "_id": -1 },
        };
        let projections = [doc! {}, doc! {}, doc! { "a": 1 }, doc! { "tags": 0 }];
        let projection = choices.pick(&projections).clone();
        let rules = choices.one_in(2).then(|| any_rules(choices));
        Self { filter: filter(choices), sort, projection, limit, skip, rules }
    }

    fn find<'a>(&self, things: &'a Collection<Document>) -> cairndb::action::Find<'a, Document> {
        let find = things.find(self.filter.clone()).sort(self.sort.clone()).limit(self.limit).skip(self.skip);
        let find = find.projection(self.projection.clone()).max_await_time(Duration::ZERO);
        match self.rules {
            Some(number) => find.collation(rules(number)),
            None => find,
        }
    }

    fn run(&self, things: &Collection<Document>) -> Result<Vec<Document>, String> {
        self.find(things).run().and_then(Iterator::collect).map_err(|error| error.to_string())
    }
}

type Known = BTreeMap<String, Document>;

fn key(id: &Bson) -> String {
    id.to_string()
}

fn known(documents: &[Document]) -> Known {
    documents.iter().map(|document| (key(document.get("_id").expect("an _id")), document.clone())).collect()
}

/// A collection as it was made at one time, under whatever name. No two have the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Made {
    number: u64,
    rules: usize,
}

/// The result of a search at a moment.
#[derive(Debug)]
struct Moment {
    of: Option<Made>,
    result: Known,
}

/// A live query, with what its caller knows.
struct Followed {
    search: Search,
    query: LiveQuery<Document>,
    known: Known,
    /// From the one on that the set was seen at last.
    moments: VecDeque<Moment>,
    /// The collection that it is on for certain.
    on: Option<Made>,
}

/// What was seen, so that a suite that sees nothing is found.
#[derive(Debug, Default)]
struct Counted {
    batches: u64,
    ended: u64,
    other_rules: u64,
    left: u64,
    jumps: u64,
}

impl Followed {
    fn open(search: Search, history: &History) -> Result<Self, String> {
        let expected = search.run(&history.things)?;
        let mut query =
            search.find(&history.things).live().map_err(|error| format!("{search:?}: {error}"))?;
        let first = query.next_if_any().map_err(|error| error.to_string())?.ok_or("no first batch")?;
        let entered: Vec<_> = expected.iter().cloned().map(LiveChange::Entered).collect();
        // Without a sort two ways of finding them may give two orders.
        let is_right = if search.sort.is_empty() {
            first.len() == entered.len() && first.iter().all(|change| entered.contains(change))
        } else {
            first == entered
        };
        if !is_right {
            return Err(format!("{search:?} begins with {first:?}, and finds {expected:?}"));
        }
        let (known, on) = (known(&expected), history.made);
        let moments = VecDeque::from([Moment { of: on, result: known.clone() }]);
        Ok(Self { search, query, known, moments, on })
    }

    fn note_moment(&mut self, history: &History) -> Result<(), String> {
        let result = known(&self.search.run(&history.things)?);
        self.moments.push_back(Moment { of: history.made, result });
        Ok(())
    }

    /// Reads what there is, and looks at each batch. Returns whether the query goes on.
    fn follow(&mut self, counted: &mut Counted) -> Result<bool, String> {
        loop {
            let batch = match self.query.next_if_any() {
                Ok(None) => return Ok(true),
                Ok(Some(batch)) => batch,
                Err(error) => {
                    counted.other_rules += 1;
                    return self.is_ended_by(&error).map(|()| false);
                }
            };
            counted.batches += 1;
            if batch == [LiveChange::Invalidated] {
                counted.ended += 1;
                return self.is_ended_with_its_collection().map(|()| false);
            }
            if batch.is_empty() {
                return Err(self.wrong("a batch without a change"));
            }
            for change in batch {
                self.apply(change, counted)?;
            }
            self.find_moment(counted)?;
        }
    }

    fn apply(&mut self, change: LiveChange<Document>, counted: &mut Counted) -> Result<(), String> {
        let key_of = |document: &Document| document.get("_id").map(key).unwrap_or_default();
        let is_right = match &change {
            LiveChange::Entered(document) => self.known.insert(key_of(document), document.clone()).is_none(),
            LiveChange::Changed(document) => {
                let before = self.known.insert(key_of(document), document.clone());
                before.is_some_and(|before| before != *document)
            }
            LiveChange::Left(id) => {
                counted.left += 1;
                self.known.remove(&key(id)).is_some()
            }
            LiveChange::Invalidated => false,
        };
        if is_right { Ok(()) } else { Err(self.wrong(&format!("{change:?}"))) }
    }

    /// Forgets the moments before the one that the set is at.
    fn find_moment(&mut self, counted: &mut Counted) -> Result<(), String> {
        let is_at = |moment: &Moment| moment.result == self.known;
        let Some(at) = self.moments.iter().position(is_at) else {
            return Err(self.wrong("no moment has this set"));
        };
        counted.jumps += u64::from(at > 1);
        if self.on.is_none() && !self.known.is_empty() {
            let mut made = self.moments.iter().filter(|moment| is_at(moment)).map(|moment| moment.of);
            let first = made.next().flatten();
            // It may have passed one over that was gone when it was read of.
            self.on = first.filter(|first| made.all(|other| other == Some(*first)));
        }
        drop(self.moments.drain(..at));
        Ok(())
    }

    /// Whether a collection had ended that the query was on, or may have been on.
    fn has_lost_its_collection(&self) -> bool {
        if self.on.is_some() {
            return self.moments.iter().any(|moment| moment.of != self.on);
        }
        let mut pairs = self.moments.iter().zip(self.moments.iter().skip(1));
        pairs.any(|(one, next)| one.of.is_some() && one.of != next.of)
    }

    fn is_ended_with_its_collection(&mut self) -> Result<(), String> {
        if !self.has_lost_its_collection() {
            return Err(self.wrong("it ended, and its collection is there"));
        }
        if self.query.is_alive() || self.query.next().is_some() {
            return Err(self.wrong("it goes on behind its end"));
        }
        Ok(())
    }

    /// A query that has no rules of its own does not go on in a collection that was made with others after it.
    fn is_ended_by(&self, error: &cairndb::Error) -> Result<(), String> {
        let has_others = self.moments.iter().any(|moment| moment.of.is_some_and(|made| made.rules != SIMPLE));
        let may_end = self.search.rules.is_none() && self.on.is_none() && has_others;
        if may_end && error.code() == Some(175) && !self.query.is_alive() {
            return Ok(());
        }
        Err(self.wrong(&error.to_string()))
    }

    /// Whether it has come to the last moment.
    fn is_settled(&self) -> bool {
        let last = self.moments.back();
        let is_over = self.on.is_some() && last.is_some_and(|last| last.of != self.on);
        !is_over && last.is_some_and(|last| last.result == self.known)
    }

    fn wrong(&self, what: &str) -> String {
        let (search, known, moments) = (&self.search, &self.known, &self.moments);
        format!("{search:?}: {what}\non {:?}, with {known:#?}\nmoments: {moments:#?}", self.on)
    }
}

/// A collection, and what becomes of it.
struct History {
    client: Client,
    database: Database,
    things: Collection<Document>,
    /// What has the name now.
    made: Option<Made>,
    /// What was renamed away and may come back.
    away: Option<Made>,
    last_number: u64,
}

impl History {
    fn begin(client: &Client) -> Self {
        let database = client.database("shop");
        let things = database.collection("things");
        Self { client: client.clone(), database, things, made: None, away: None, last_number: 0 }
    }

    fn elsewhere(&self) -> Collection<Document> {
        self.database.collection("elsewhere")
    }

    fn make(&mut self, rules: usize) {
        self.last_number += 1;
        self.made = Some(Made { number: self.last_number, rules });
    }

    /// One step of the history.
    fn go_on(&mut self, choices: &mut Choices) -> cairndb::Result<()> {
        let is_there = self.made.is_some();
        match choices.below(80) {
            0 if is_there => drop(self.things.truncate().run()?),
            1 if is_there => {
                self.things.drop().run()?;
                self.made = None;
            }
            2 if is_there => {
                self.elsewhere().drop().run()?;
                self.things.rename("elsewhere").run()?;
                self.away = self.made.take();
            }
            // Over what has the name now, if there is something.
            3 | 4 if self.away.is_some() => {
                self.elsewhere().rename("things").drop_target(true).run()?;
                self.made = self.away.take();
            }
            5 if is_there => {
                let some = doc! { "$match": condition(choices) };
                self.things.aggregate([some, doc! { "$out": "things" }]).run()?;
                let rules = self.made.map_or(SIMPLE, |made| made.rules);
                self.make(rules);
            }
            6 if self.away.is_some() => write_one(&self.elsewhere(), choices, None)?,
            7 if is_there => drop(self.things.drop_indexes().run()?),
            8..=13 if is_there => drop(self.things.create_index(index(choices)).run()?),
            14..=24 if !is_there => {
                let number = any_rules(choices);
                self.database.create_collection("things").collation(rules(number)).run()?;
                self.make(number);
                for _ in 0..choices.below(4) {
                    self.things.create_index(index(choices)).run()?;
                }
            }
            25..=40 => self.write_at_once(choices)?,
            _ => write_one(&self.things, choices, None)?,
        }
        // A first document makes it.
        let is_there = self.database.list_collection_names().run()?.iter().any(|name| name == "things");
        if is_there && self.made.is_none() {
            self.make(SIMPLE);
        }
        Ok(())
    }

    /// Several writes that are seen together.
    fn write_at_once(&self, choices: &mut Choices) -> cairndb::Result<()> {
        let (many, seed) = (choices.below(3), choices.number());
        let mut session = self.client.start_session().run()?;
        session.start_transaction().and_run(|session| {
            // The same ones if it is run again.
            let choices = &mut Choices::seeded(seed);
            let some = condition(choices);
            match many {
                0 => drop(self.things.update_many(some, update(choices)).session(&mut *session).run()?),
                1 => drop(self.things.delete_many(some).session(&mut *session).run()?),
                _ => {}
            }
            (0..=choices.below(3)).try_for_each(|_| write_one(&self.things, choices, Some(session)))
        })
    }
}

fn index(choices: &mut Choices) -> IndexModel {
    let keys = [
        doc! { "a": 1 },
        doc! { "a": -1, "_id": 1 },
        doc! { "name": 1, "_id": -1 },
        doc! { "tags": 1, "a": -1 },
        doc! { "tags": 1, "_id": 1 },
        doc! { "a": 1, "name": -1, "_id": 1 },
    ];
    let at = choices.index(keys.len());
    let partial = [None, Some(doc! { "a": { "$gte": 2 } }), Some(doc! { "tags": { "$exists": true } })];
    let (partial_at, number) = (choices.index(partial.len()), any_rules(choices));
    // The same keys with other options are another index.
    let options = IndexOptions::builder()
        .name(format!("index {at} {partial_at} {number}"))
        .partial_filter_expression(partial.get(partial_at).cloned().flatten())
        .collation(rules(number));
    IndexModel::builder().keys(keys.get(at).cloned().unwrap_or_default()).options(options.build()).build()
}

fn update(choices: &mut Choices) -> Document {
    match choices.below(6) {
        0 | 1 => doc! { "$inc": { "a": 1 } },
        2 => doc! { "$set": { "a": small_number(choices) } },
        3 => doc! { "$set": { "name": text(choices) } },
        4 => doc! { "$unset": { "tags": 1 } },
        _ => doc! { "$set": { "tags": [small_number(choices), text(choices)] } },
    }
}

fn write_one(
    things: &Collection<Document>,
    choices: &mut Choices,
    session: Option<&mut cairndb::ClientSession>,
) -> cairndb::Result<()> {
    let one = doc! { "_id": id(choices) };
    match choices.below(6) {
        0..=2 => {
            let mut document = doc! { "a": small_number(choices), "name": text(choices) };
            if !choices.one_in(3) {
                let tags: Vec<Bson> = vec![small_number(choices).into(), text(choices).into()];
                document.insert("tags", tags);
            }
            let replace = things.replace_one(one, document).upsert(true);
            match session {
                Some(session) => replace.session(session).run().map(drop),
                None => replace.run().map(drop),
            }
        }
        3 => match session {
            Some(session) => things.delete_one(one).session(session).run().map(drop),
            None => things.delete_one(one).run().map(drop),
        },
        _ => {
            let change = things.update_one(one, update(choices));
            match session {
                Some(session) => change.session(session).run().map(drop),
                None => change.run().map(drop),
            }
        }
    }
}

/// A history of a seed. What is returned as an error is a broken promise.
fn run(seed: u64, fault: PlantedFault, patience: Duration, counted: &mut Counted) -> Result<(), String> {
    let failed = |error: cairndb::Error| error.to_string();
    let (mut choices, scratch) = (Choices::seeded(seed), Scratch::new());
    // In memory each write is seen at once, and in a folder after a sync.
    let is_in_memory = choices.one_in(2);
    let builder = small().planted_fault(fault);
    let client = if is_in_memory {
        builder.in_memory(true).open("").map_err(failed)?
    } else {
        scratch.open_with(builder)
    };
    let choices = &mut choices;
    let mut history = History::begin(&client);
    let mut queries: Vec<Followed> = Vec::new();
    for step in 0..STEPS {
        if queries.len() < QUERIES && (choices.one_in(2) || step == 0) {
            queries.push(Followed::open(Search::any(choices), &history)?);
        }
        for _ in 0..=choices.below(3) {
            history.go_on(choices).map_err(|error| format!("step {step}: {error}"))?;
            for query in &mut queries {
                query.note_moment(&history)?;
            }
        }
        if choices.one_in(4) {
            client.sync().map_err(failed)?;
        }
        let mut go_on = Vec::new();
        for mut query in queries {
            let is_on = if step + 1 == STEPS || choices.one_in(5) {
                settle(&client, &mut query, patience, counted)?
            } else {
                !choices.one_in(3) || query.follow(counted)?
            };
            go_on.extend(is_on.then_some(query));
        }
        queries = go_on;
    }
    drop(queries);
    crate::verify_clean(&client);
    Ok(())
}

/// Follows a query until it has come to the last moment. Returns whether it goes on.
fn settle(
    client: &Client,
    query: &mut Followed,
    patience: Duration,
    counted: &mut Counted,
) -> Result<bool, String> {
    let began = Instant::now();
    loop {
        client.sync().map_err(|error| error.to_string())?;
        if !query.follow(counted)? {
            return Ok(false);
        }
        if query.is_settled() {
            return Ok(true);
        }
        if began.elapsed() > patience {
            return Err(query.wrong("it does not come to the last moment"));
        }
        pause();
    }
}

#[test]
fn after_every_batch_a_set_is_the_result_of_its_search_at_one_moment() {
    let histories = number_from_environment("CAIRNDB_LIVE_HISTORIES", HISTORIES_DEFAULT);
    let (seed, began, mut counted) = (seed(), Instant::now(), Counted::default());
    for number in 0..histories {
        let run = run(part(seed, number), PlantedFault::None, PATIENCE, &mut counted);
        run.unwrap_or_else(|found| panic!("{SEED_VARIABLE}={seed}, history {number}: {found}"));
    }
    let _ = writeln!(
        io::stderr(),
        "live: {histories} histories in {:.1} s: {counted:?}; {SEED_VARIABLE}={seed}",
        began.elapsed().as_secs_f64()
    );
    // Else it proves nothing.
    if histories >= HISTORIES_DEFAULT {
        assert!(counted.batches > histories * 10 && counted.left > histories, "{counted:?}");
        assert!(counted.ended > histories && counted.jumps > histories, "{counted:?}");
        // Rarely.
        assert!(counted.other_rules > 0 || histories < 10 * HISTORIES_DEFAULT, "{counted:?}");
    }
}

#[test]
fn a_document_that_leaves_without_a_word_is_found_in_a_history() {
    let seed = seed();
    let run = |number| {
        let run =
            run(part(seed, number), PlantedFault::LeftForgotten, FAULTY_PATIENCE, &mut Counted::default());
        run.err()
    };
    let found = (0..FAULTY_HISTORIES_MAX).find_map(run);
    assert!(found.is_some(), "{SEED_VARIABLE}={seed}: it is in none of {FAULTY_HISTORIES_MAX}");
}
