//! The law of indexes: two collections with the same documents, one of them with indexes, give the same answers to every
//! question, and are the same after every write.
//!
//! Without a sort documents may come in another order, and with one those that it does not distinguish may; then a limit
//! may choose others. So an answer is held against what the plain collection says of it: the same documents, or the same
//! keys of the sort, or as many that match.

mod generate;
mod keys;

use cairndb::bson::{Bson, Document, RawDocument, RawDocumentBuf, doc, serialize_to_bson};
use cairndb::{
    Client, ClientBuilder, Collation, Collection, FindOptions, Hint, IndexBuildProgress, IndexModel,
    IndexOptions, ReturnDocument,
};

use crate::choices::Choices;
use crate::indexes::generate::Arrays;
use crate::indexes::keys::Bounds;
use crate::scratch::Scratch;

/// The compared questions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Questions, each asked of both collections.
    pub queries: u64,
    /// Writes, each done to both.
    pub writes: u64,
    /// Questions that an index answered.
    pub indexed: u64,
    /// Questions that it answered without the documents.
    pub covered: u64,
    /// Questions that several scans of an index answered side by side.
    pub merged: u64,
    /// Questions for the first document of each group that read one entry of each.
    pub one_of_each: u64,
    /// Questions for a range of the keys of an index that found something.
    pub ranges: u64,
    /// Questions with a collation that an index with a collation answered.
    pub collated: u64,
}

/// The codes of the errors by which a document is denied to be sorted: by fields of different arrays, and by a name that is a
/// position in an array as well.
const CANNOT_SORT: [Option<i32>; 2] = [Some(2), Some(16_746)];

/// The documents of an answer, in its order.
type Answer = Vec<Vec<u8>>;

/// Both collections.
struct Pair {
    client: Client,
    plain: Collection<RawDocumentBuf>,
    indexed: Collection<RawDocumentBuf>,
    indexes: Vec<IndexModel>,
    /// The number of indexes that were tried: each has a name of its own.
    names: usize,
    next_id: i32,
    arrays: Arrays,
    texts: Texts,
    compared: Compared,
    _scratch: Scratch,
}

/// Which texts documents have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Texts {
    Few,
    /// Many, and indexes and questions have collations.
    Collated,
    /// Some that are longer than keys may be, among them `_id`s.
    Long,
}

/// A question.
#[derive(Clone, Debug)]
struct Question {
    filter: Document,
    sort: Option<Document>,
    skip: u64,
    limit: i64,
    projection: Option<Document>,
    hint: Option<Hint>,
    collation: Collation,
}

/// Asks `rounds` times twenty questions, with writes between them, of a store that is made with `options`.
pub fn run(choices: &mut Choices, rounds: usize, options: ClientBuilder) -> Compared {
    let scratch = Scratch::new();
    let client = scratch.open_with(options);
    let collection = |name: &str| client.database("law").collection(name);
    let (plain, indexed) = (collection("plain"), collection("indexed"));
    let compared = Compared::default();
    let mut pair = Pair {
        client,
        plain,
        indexed,
        indexes: Vec::new(),
        names: 0,
        next_id: 0,
        arrays: if choices.one_in(2) { Arrays::None } else { Arrays::Some },
        texts: match choices.below(4) {
            0 => Texts::Few,
            1 | 2 => Texts::Collated,
            _ => Texts::Long,
        },
        compared,
        _scratch: scratch,
    };
    // Indexes are made before documents come, and over those that are there.
    pair.create_indexes(choices);
    for _ in 0..8 + choices.below(40) {
        pair.insert(choices);
    }
    pair.create_indexes(choices);
    for _ in 0..rounds {
        for _ in 0..20 {
            pair.ask(choices);
            if choices.one_in(4) {
                pair.ask_for_range(choices);
            }
        }
        for _ in 0..choices.below(6) {
            pair.write(choices);
        }
        if choices.one_in(4) {
            pair.replace_an_index(choices);
        }
    }
    let report = pair.client.verify().expect("verified");
    assert!(report.is_clean(), "{report:?}");
    pair.compared
}

impl Pair {
    fn create_indexes(&mut self, choices: &mut Choices) {
        for _ in 0..choices.below(4) {
            self.create_index(choices);
        }
    }

    /// Makes an index, unless what is stored, or another index, stands against it.
    fn create_index(&mut self, choices: &mut Choices) {
        self.names += 1;
        let mut model = generate::index(choices, self.names);
        if let Some(options) = &mut model.options {
            if self.texts == Texts::Collated {
                options.collation = Some(generate::collation(choices));
            }
            let filter = options.partial_filter_expression.take();
            options.partial_filter_expression = filter.map(|filter| self.with_texts(filter));
        }
        let indexed = self.indexed.clone();
        // Some writes come in the middle of the build. The build calls at the beginning of each of its parts.
        let mut writes = if choices.one_in(3) { choices.below(4) } else { 0 };
        let write = |_: &IndexBuildProgress| {
            if writes > 0 {
                writes -= 1;
                self.write(choices);
            }
        };
        if indexed.create_index(model.clone()).progress(write).run().is_ok() {
            self.indexes.push(model);
        }
    }

    fn replace_an_index(&mut self, choices: &mut Choices) {
        if !self.indexes.is_empty() {
            let model = self.indexes.swap_remove(choices.index(self.indexes.len()));
            self.indexed.drop_index(name_of(&model)).run().expect("it is there");
        }
        self.create_index(choices);
    }

    /// Stores a document, unless an index rejects it.
    fn insert(&mut self, choices: &mut Choices) {
        self.next_id += 1;
        let document = self.with_texts(generate::document(choices, self.next_id, self.arrays));
        let document = RawDocumentBuf::try_from(&document).expect("small");
        if self.indexed.insert_one(&document).run().is_ok() {
            self.plain.insert_one(&document).run().expect("the id is new");
        }
    }

    /// The same document, filter or update with some texts, if the store has them.
    fn with_texts(&self, fields: Document) -> Document {
        match self.texts {
            Texts::Few => fields,
            Texts::Collated => generate::fields_with_texts(fields),
            Texts::Long => generate::fields_with_long_texts(fields),
        }
    }

    /// A collation, which is the simple one in a store without texts.
    fn collation(&self, choices: &mut Choices) -> Collation {
        if self.texts == Texts::Collated { generate::collation(choices) } else { Collation::simple() }
    }

    fn question(&self, choices: &mut Choices) -> Question {
        let mut filter = generate::filter(choices, 0);
        if choices.one_in(10) {
            filter.insert(generate::path(choices), generate::pattern(choices));
        }
        // Few filters imply that of a partial index by chance.
        if choices.one_in(4) && !self.indexes.is_empty() {
            let model = choices.pick(&self.indexes).clone();
            filter = generate::within(choices, &model).unwrap_or(filter);
        }
        let sort = choices.one_in(2).then(|| generate::sort(choices));
        let mut projection = choices.one_in(2).then(|| generate::projection(choices));
        // Few conditions on paths of an index are what its entries decide, and these paths are what they show.
        if choices.one_in(3) {
            let paths = [self.path(choices), self.path(choices)];
            filter = generate::few(choices, &paths);
            if choices.one_in(2) {
                projection = Some(generate::shown(choices, &paths));
            }
        }
        let hint = choices.one_in(5).then(|| self.hint(choices));
        let skip = if choices.one_in(4) { choices.below(5) } else { 0 };
        let limit = if choices.one_in(3) { i64::try_from(choices.below(6)).expect("small") } else { 0 };
        let (filter, collation) = (self.with_texts(filter), self.collation(choices));
        Question { filter, sort, skip, limit, projection, hint, collation }
    }

    /// A path, mostly of an index.
    fn path(&self, choices: &mut Choices) -> String {
        if self.indexes.is_empty() || choices.one_in(3) {
            return generate::path(choices).to_owned();
        }
        let mut keys: Vec<String> = choices.pick(&self.indexes).keys.keys().cloned().collect();
        // The key of a wildcard index is not a path.
        keys.iter_mut().filter(|key| key.ends_with("$**")).for_each(|key| "a".clone_into(key));
        choices.pick(&keys).clone()
    }

    fn hint(&self, choices: &mut Choices) -> Hint {
        let visible: Vec<IndexModel> =
            self.indexes.iter().filter(|index| !is_hidden(index)).cloned().collect();
        match choices.below(4) {
            0 => Hint::Keys(doc! { "$natural": if choices.one_in(2) { 1 } else { -1 } }),
            1 => Hint::Name("_id_".to_owned()),
            _ if visible.is_empty() => Hint::Keys(doc! { "_id": 1 }),
            2 => Hint::Name(name_of(choices.pick(&visible)).to_owned()),
            _ => Hint::Keys(choices.pick(&visible).keys.clone()),
        }
    }

    /// Asks both collections one question in several ways.
    fn ask(&mut self, choices: &mut Choices) {
        let question = self.question(choices);
        self.compared.queries += 1;
        let Ok(all) = find(&self.plain, &Question { sort: None, ..question.all() }) else {
            panic!("the plain collection refuses {question:?}")
        };
        self.check_matches(&question, &all);
        self.check_order(&question, &all);
        if choices.one_in(4) {
            let path = self.path(choices);
            self.check_other_verbs(&question, all.len(), &path);
        }
    }

    /// Asks for a range of the keys of an index: the documents with a key in that range come, and no others.
    fn ask_for_range(&mut self, choices: &mut Choices) {
        let ids = IndexOptions::builder().name("_id_".to_owned()).build();
        let ids = IndexModel::builder().keys(doc! { "_id": 1 }).options(ids).build();
        let has_bounds =
            |index: &&IndexModel| !is_hidden(index) && index.keys.keys().all(|key| !key.ends_with("$**"));
        let all: Vec<IndexModel> = self.indexes.iter().filter(has_bounds).cloned().chain([ids]).collect();
        let model = choices.pick(&all).clone();
        let bound = |choices: &mut Choices| -> Option<Document> {
            let arrays = self.arrays;
            let values = model.keys.keys().map(|path| (path.clone(), generate::value(choices, 2, arrays)));
            let bound = self.with_texts(values.collect());
            (!choices.one_in(4)).then_some(bound)
        };
        let (min, max) = (bound(choices), bound(choices));
        if min.is_none() && max.is_none() {
            return;
        }
        let bounds = Bounds { min: min.as_ref(), max: max.as_ref() };
        let question = self.question(choices);
        let partial = model.options.as_ref().and_then(|options| options.partial_filter_expression.clone());
        let filter = doc! { "$and": [question.filter.clone(), partial.unwrap_or_default()] };
        let key_of = |bytes: &Vec<u8>| {
            keys::lowest_within(&model, bounds, RawDocument::from_bytes(bytes).expect("a document"))
        };
        let whole = question.sort.map(|sort| {
            let mut whole: Document = sort.into_iter().filter(|(path, _)| path != "_id").collect();
            whole.insert("_id", 1);
            whole
        });
        for sort in [None, whole] {
            // A range with texts is in the order of its index.
            let collation = collation_of(&model);
            let asked =
                Question { collation: collation.clone(), ..Question::of(filter.clone(), sort.clone()) };
            let Ok(mut expected) = find(&self.plain, &asked) else {
                continue;
            };
            // One document needs no sort, and then it does not matter whether it could be sorted.
            let may_fail = sort.is_some() && expected.len() < 2;
            expected.retain(|bytes| key_of(bytes).is_some());
            let mut options = FindOptions::default();
            (options.min, options.max, options.sort) = (min.clone(), max.clone(), sort.clone());
            options.hint = Some(Hint::Name(name_of(&model).to_owned()));
            options.collation = Some(collation);
            let search = self.indexed.find(question.filter.clone()).with_options(options);
            let rows = search.run().and_then(|cursor| {
                cursor.map(|document| Ok(document?.into_bytes())).collect::<Result<Vec<Vec<u8>>, _>>()
            });
            let told = || self.told(&Question::of(question.filter.clone(), sort.clone()));
            let found = match rows {
                Ok(found) => found,
                Err(error) if may_fail && CANNOT_SORT.contains(&error.code()) => continue,
                Err(error) => {
                    assert_eq!(error.code(), Some(51_175), "{model:?} {bounds:?} {error} {}", told());
                    assert!(expected.is_empty(), "{model:?} {bounds:?} {error} {}", told());
                    continue;
                }
            };
            if sort.is_some() {
                assert!(found == expected, "{model:?} {bounds:?} {}", told());
                continue;
            }
            // Without a sort they come in the order of their keys, which is that of their values unless some are long.
            let is_in_order = self.texts == Texts::Long || found.is_sorted_by_key(key_of);
            assert!(is_in_order, "{model:?} {bounds:?} {}", told());
            let count = found.len();
            assert_eq!(sorted(found), sorted(expected), "{model:?} {bounds:?} {}", told());
            self.compared.ranges += u64::from(count > 0);
        }
    }

    /// Without skip and limit the same documents come, whatever their order.
    fn check_matches(&self, question: &Question, all: &[Vec<u8>]) {
        let unlimited = Question { sort: None, ..question.all() };
        let found = find(&self.indexed, &unlimited).unwrap_or_else(|error| panic!("{question:?}: {error}"));
        assert_eq!(sorted(found), sorted(all.to_vec()), "{}", self.told(question));
    }

    /// With a sort by the `_id` at its end, exactly the same comes; with any other, the same keys of the sort.
    fn check_order(&self, question: &Question, all: &[Vec<u8>]) {
        let Some(sort) = &question.sort else {
            let found = find(&self.indexed, question).unwrap_or_else(|error| panic!("{question:?}: {error}"));
            let behind = all.len().saturating_sub(usize::try_from(question.skip).expect("small"));
            let limit = usize::try_from(question.limit).expect("small");
            let expected = if limit == 0 { behind } else { behind.min(limit) };
            assert_eq!(found.len(), expected, "{}", self.told(question));
            return;
        };
        let mut whole = sort.clone();
        whole.remove("_id");
        whole.insert("_id", 1);
        let exact = Question { sort: Some(whole), ..question.clone() };
        if let Some((found, expected)) = self.ask_both(&exact, all.len()) {
            assert!(found == expected, "{}", self.told(&exact));
        }
        let shown = Question { projection: None, hint: question.hint.clone(), ..question.clone() };
        if let Some((found, expected)) = self.ask_both(&shown, all.len()) {
            let keys = |answer: &Answer| sort_keys(sort, &shown.collation, answer);
            assert_eq!(keys(&found), keys(&expected), "{}", self.told(&shown));
        }
    }

    /// The answers of both to a question with a sort that `matching` documents meet, first the collection with
    /// indexes. Documents whose fields lie in different arrays cannot be sorted: an index may pass them by, and one
    /// document needs no sort, so that each may answer where the other rejects. Returns `None` then.
    fn ask_both(&self, question: &Question, matching: usize) -> Option<(Answer, Answer)> {
        let expected = find(&self.plain, question).ok()?;
        match find(&self.indexed, question) {
            Ok(found) => Some((found, expected)),
            Err(error) if matching < 2 && CANNOT_SORT.contains(&error.code()) => None,
            Err(error) => panic!("{question:?}: {error}"),
        }
    }

    /// Counts, distinct values of `path`, and pipelines.
    fn check_other_verbs(&mut self, question: &Question, matching: usize, path: &str) {
        let collation = &question.collation;
        let count = self.indexed.count_documents(question.filter.clone());
        let mut count = count.collation(collation.clone());
        if let Some(hint) = &question.hint {
            count = count.hint(hint.clone());
        }
        assert_eq!(count.run().expect("counted"), matching as u64, "{}", self.told(question));
        let distinct = |collection: &Collection<RawDocumentBuf>| {
            let values = collection.distinct(path, question.filter.clone()).collation(collation.clone());
            let values = values.run().expect("values");
            // Of numbers that are equal any may be found first, and of texts that are.
            let is_told = |value: &&Bson| {
                !(is_number_within(value) || self.texts == Texts::Collated && is_text_within(value))
            };
            let told = values.iter().filter(is_told);
            (values.len(), sorted(told.map(|value| value.to_string().into_bytes()).collect()))
        };
        assert_eq!(distinct(&self.indexed), distinct(&self.plain), "{path} {}", self.told(question));
        let by_path =
            doc! { "_id": { "$type": format!("${path}") }, "n": { "$sum": 1 }, "max": { "$max": "$b" } };
        let project = doc! { "_id": 0, "a": 1, "b": 1 };
        // The first of each group follows from the sort, because it ends with the `_id`.
        let first_of_each = |direction: i32| {
            let mut sort = doc! { path: direction };
            sort.insert("_id", direction);
            let first =
                doc! { "_id": format!("${path}"), "id": { "$first": "$_id" }, "b": { "$first": "$b" } };
            vec![doc! { "$sort": sort }, doc! { "$group": first }, doc! { "$sort": { "id": 1 } }]
        };
        for stages in [
            vec![doc! { "$sort": { "_id": -1 } }],
            vec![doc! { "$count": "n" }],
            vec![doc! { "$group": by_path }, doc! { "$sort": { "_id": 1 } }],
            vec![doc! { "$sort": { "b": 1, "_id": 1 } }, doc! { "$limit": 3 }, doc! { "$project": project }],
            first_of_each(1),
            first_of_each(-1),
        ] {
            let stages = [vec![doc! { "$match": question.filter.clone() }], stages].concat();
            let piped = |collection: &Collection<RawDocumentBuf>| -> Result<Vec<Vec<u8>>, cairndb::Error> {
                let pipeline = collection.aggregate(stages.clone()).collation(collation.clone());
                let cursor = pipeline.with_type::<RawDocumentBuf>().run()?;
                cursor.map(|document| Ok(document?.into_bytes())).collect()
            };
            // Fields in different arrays cannot be sorted; an index may pass them by.
            let Ok(expected) = piped(&self.plain) else { continue };
            let found = piped(&self.indexed).unwrap_or_else(|error| panic!("{stages:?}: {error}"));
            let shown = |documents: &[Vec<u8>]| {
                let shown = |bytes: &Vec<u8>| format!("{:?}", RawDocument::from_bytes(bytes));
                documents.iter().map(shown).collect::<Vec<_>>()
            };
            // Of numbers that are equal any may be the greatest.
            let has_max =
                |stage: &Document| stage.get_document("$group").is_ok_and(|group| group.contains_key("max"));
            let is_same = found == expected || stages.iter().any(has_max);
            assert!(is_same, "{stages:?} {:?} {:?} {}", shown(&found), shown(&expected), self.told(question));
            assert_eq!(found.len(), expected.len(), "{stages:?} {}", self.told(question));
            let mut aggregate = doc! { "aggregate": "indexed", "pipeline": stages, "cursor": {} };
            aggregate.insert("collation", serialize_to_bson(collation).expect("a document"));
            self.compared.one_of_each += u64::from(self.explained(aggregate).contains("DISTINCT_SCAN"));
        }
        let plan = self.plan(question);
        self.compared.indexed += u64::from(plan.contains("IXSCAN\""));
        self.compared.covered += u64::from(plan.contains("PROJECTION_COVERED"));
        self.compared.merged += u64::from(plan.contains("SORT_MERGE"));
        // The scan has one and the question has the same.
        self.compared.collated += u64::from(plan.contains("CollationKey("));
    }

    /// Writes to both, and holds them against each other.
    fn write(&mut self, choices: &mut Choices) {
        self.compared.writes += 1;
        self.next_id += 1;
        let filter = self.with_texts(generate::filter(choices, 1));
        let update = self.with_texts(generate::update(choices, self.arrays));
        let collation = self.collation(choices);
        let kind = choices.below(8);
        let upsert = choices.one_in(3);
        let new = doc! { "$setOnInsert": { "_id": self.next_id } };
        let upserting: Document = update
            .clone()
            .into_iter()
            .chain(if upsert {
                new
            } else {
                doc! {}
            })
            .collect();
        let first = doc! { "b": 1, "_id": 1 };
        let replacement = match self.arrays {
            Arrays::Some => doc! { "a": [1, 2], "b": 3 },
            Arrays::None => doc! { "a": 1, "b": 3 },
        };
        let write = |collection: &Collection<RawDocumentBuf>| -> Result<String, cairndb::Error> {
            let (filter, collation) = (filter.clone(), collation.clone());
            Ok(match kind {
                0 | 1 => {
                    let done = collection.update_many(filter, update.clone()).collation(collation).run()?;
                    format!("{} {}", done.matched_count, done.modified_count)
                }
                2 | 3 => {
                    let write = collection.update_one(filter, upserting.clone()).sort(first.clone());
                    let done = write.upsert(upsert).collation(collation).run()?;
                    format!("{} {} {:?}", done.matched_count, done.modified_count, done.upserted_id)
                }
                4 => format!("{}", collection.delete_many(filter).collation(collation).run()?.deleted_count),
                5 => {
                    let write = collection.find_one_and_delete(filter).sort(first.clone());
                    format!("{:?}", write.collation(collation).run()?)
                }
                6 => {
                    let write = collection.find_one_and_update(filter, update.clone()).sort(first.clone());
                    let write = write.return_document(ReturnDocument::After).collation(collation);
                    format!("{:?}", write.run()?)
                }
                _ => {
                    let document = RawDocumentBuf::try_from(&replacement)?;
                    let write = collection.replace_one(filter, &document).sort(first.clone());
                    format!("{}", write.collation(collation).run()?.matched_count)
                }
            })
        };
        match write(&self.indexed) {
            Ok(done) => {
                let expected =
                    write(&self.plain).unwrap_or_else(|error| panic!("{filter} {update}: {error}"));
                assert_eq!(done, expected, "{filter} {update}");
            }
            Err(error) => self.take_over(&error, &write),
        }
        let all = |collection: &Collection<RawDocumentBuf>| {
            let everything = Question::of(doc! {}, Some(doc! { "_id": 1 }));
            find(collection, &everything).expect("documents")
        };
        assert!(all(&self.indexed) == all(&self.plain), "{filter} {update}, kind {kind}");
        if choices.one_in(2) {
            self.insert(choices);
        }
    }

    /// An index rejected a document, or the write is rejected for itself: then the plain collection gets what was
    /// written until then.
    fn take_over(
        &self,
        error: &cairndb::Error,
        write: &dyn Fn(&Collection<RawDocumentBuf>) -> Result<String, cairndb::Error>,
    ) {
        // Parallel arrays, and names that are positions as well, cannot be indexed.
        let is_of_index = error.is_duplicate_key()
            || error.code() == Some(17_280)
            || error.code() == Some(171)
            || error.to_string().contains("ambiguous field name");
        if !is_of_index {
            let refused = write(&self.plain);
            assert!(refused.is_err(), "only the indexed collection refuses: {error}");
        }
        self.plain.delete_many(doc! {}).run().expect("deleted");
        let stored = find(&self.indexed, &Question::of(doc! {}, None)).expect("documents");
        let stored = stored.into_iter().map(|bytes| RawDocumentBuf::from_bytes(bytes).expect("a document"));
        let stored: Vec<RawDocumentBuf> = stored.collect();
        if !stored.is_empty() {
            self.plain.insert_many(&stored).run().expect("they are new");
        }
    }

    /// A question with the plan that answers it.
    fn told(&self, question: &Question) -> String {
        let stored = self
            .plain
            .find(doc! {})
            .run()
            .expect("a cursor")
            .map(|document| document.map(|document| format!("{document:?}")).unwrap_or_default());
        let indexes: Vec<String> = self.indexes.iter().map(|index| format!("{index:?}")).collect();
        format!(
            "{question:?}\n{}\nindexes: {}\ndocuments: {}",
            self.plan(question),
            indexes.join("\n"),
            stored.collect::<Vec<_>>().join("\n")
        )
    }

    fn plan(&self, question: &Question) -> String {
        let mut find = doc! { "find": "indexed", "filter": question.filter.clone() };
        find.insert("collation", serialize_to_bson(&question.collation).expect("a document"));
        find.extend(question.sort.clone().map(|sort| ("sort".to_owned(), Bson::Document(sort))));
        find.extend(
            question.projection.clone().map(|shown| ("projection".to_owned(), Bson::Document(shown))),
        );
        find.extend(question.hint.clone().map(|hint| {
            let hint = match hint {
                Hint::Keys(keys) => Bson::Document(keys),
                Hint::Name(name) => Bson::String(name),
                other => panic!("{other:?} is not made"),
            };
            ("hint".to_owned(), hint)
        }));
        self.explained(find)
    }

    /// The plan of a command, as text.
    fn explained(&self, command: Document) -> String {
        let command = doc! { "explain": command, "verbosity": "queryPlanner" };
        self.client.database("law").run_command(command).run().expect("explained").to_string()
    }
}

impl Question {
    fn of(filter: Document, sort: Option<Document>) -> Self {
        let collation = Collation::simple();
        Self { filter, sort, skip: 0, limit: 0, projection: None, hint: None, collation }
    }

    /// The question without a skip and a limit.
    fn all(&self) -> Self {
        Self { skip: 0, limit: 0, ..self.clone() }
    }
}

/// The keys of documents in a sort.
fn sort_keys(sort: &Document, collation: &Collation, documents: &[Vec<u8>]) -> Vec<Option<Vec<u8>>> {
    let key =
        |bytes: &Vec<u8>| keys::in_sort(sort, collation, RawDocument::from_bytes(bytes).expect("a document"));
    documents.iter().map(key).collect()
}

/// The answer, document by document. The plain collection has no index that a hint could name.
fn find(
    collection: &Collection<RawDocumentBuf>,
    question: &Question,
) -> Result<Vec<Vec<u8>>, cairndb::Error> {
    let Question { filter, sort, skip, limit, projection, hint, collation } = question.clone();
    let mut find = collection.find(filter).skip(skip).limit(limit).collation(collation);
    if let Some(sort) = sort {
        find = find.sort(sort);
    }
    if let Some(projection) = projection {
        find = find.projection(projection);
    }
    if let Some(hint) = hint.filter(|_| collection.name() == "indexed") {
        find = find.hint(hint);
    }
    find.run()?.map(|document| Ok(document?.into_bytes())).collect()
}

fn sorted(mut documents: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    documents.sort();
    documents
}

/// Whether a value is a number, or has one in it.
fn is_number_within(value: &Bson) -> bool {
    let is_number = matches!(value, Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_));
    let values = value.as_array().into_iter().flatten();
    let fields = value.as_document().into_iter().flat_map(|fields| fields.values());
    is_number || values.chain(fields).any(is_number_within)
}

/// Whether a value is a text, or has one in it.
fn is_text_within(value: &Bson) -> bool {
    let values = value.as_array().into_iter().flatten();
    let fields = value.as_document().into_iter().flat_map(|fields| fields.values());
    matches!(value, Bson::String(_)) || values.chain(fields).any(is_text_within)
}

fn collation_of(model: &IndexModel) -> Collation {
    let collation = model.options.as_ref().and_then(|options| options.collation.clone());
    collation.unwrap_or_else(Collation::simple)
}

fn name_of(model: &IndexModel) -> &str {
    model.options.as_ref().and_then(|options| options.name.as_deref()).expect("every index has a name")
}

fn is_hidden(model: &IndexModel) -> bool {
    model.options.as_ref().and_then(|options| options.hidden) == Some(true)
}
