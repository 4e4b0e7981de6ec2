//! One question that an index answers, with its plan, and one aggregation.

use std::time::Instant;

use cairndb::bson::{Bson, Document, doc};
use cairndb::{Client, Collection, IndexModel};

use crate::duplicates::{sample, scalars};
use crate::json::Json;
use crate::outcome::Outcome;
use crate::screen::{Screen, duration, grouped, line};

/// Groups that are shown.
const GROUPS: i32 = 3;

/// Asks for the documents with one value of a field, and counts the documents by that field.
pub(crate) fn show(
    screen: &mut Screen,
    client: &Client,
    documents: &Collection<Document>,
    field: Option<&str>,
) -> Outcome<()> {
    let filter = field.map_or_else(|| doc! {}, |field| doc! { field: { "$exists": true } });
    let sample = sample(documents, filter)?;
    let field = match field.map(str::to_owned).or_else(|| scalars(&sample).into_iter().next()) {
        Some(field) => field,
        // Documents without a field have an _id.
        None => "_id".to_owned(),
    };
    let value = sample.get(&field).cloned().unwrap_or(Bson::Null);
    // The unique index of duplicates may be on the same field.
    let is_indexed = field == "_id" || documents.list_index_names().run()?.contains(&format!("{field}_1"));
    if !is_indexed {
        documents.create_index(IndexModel::builder().keys(doc! { &field: 1 }).build()).run()?;
    }
    screen.step("One question, answered by an index")?;
    let filter = doc! { &field: value };
    let started = Instant::now();
    let found = documents.find(filter.clone()).run()?.collect::<cairndb::Result<Vec<_>>>()?.len();
    let elapsed = duration(started.elapsed());
    line(&format!("find({}) finds {} in {elapsed}", json(filter.clone())?, grouped(found as u64)))?;
    let namespace = documents.namespace();
    let find = doc! { "find": &namespace.coll, "filter": filter };
    let command = doc! { "explain": find, "verbosity": "executionStats" };
    let told = client.database(&namespace.db).run_command(command).run()?;
    line(&plan(&told)?)?;

    screen.step("One aggregation")?;
    let stages = vec![
        doc! { "$match": { &field: { "$ne": null } } },
        doc! { "$sortByCount": format!("${field}") },
        doc! { "$limit": GROUPS },
    ];
    let shown = stages.iter().cloned().map(json).collect::<Outcome<Vec<_>>>()?;
    line(&format!("[{}]", shown.join(", ")))?;
    let started = Instant::now();
    let groups = documents.aggregate(stages).run()?.collect::<cairndb::Result<Vec<Document>>>()?;
    let elapsed = duration(started.elapsed());
    let groups = groups.into_iter().map(json).collect::<Outcome<Vec<_>>>()?;
    line(&format!("{} in {elapsed}", groups.join(" ")))
}

/// The steps of a plan, and what it has read.
fn plan(told: &Document) -> Outcome<String> {
    let mut steps = Vec::new();
    let mut stage = told.get_document("queryPlanner")?.get_document("winningPlan").ok();
    while let Some(current) = stage {
        let index = current.get_str("indexName").map(|name| format!(" {name}")).unwrap_or_default();
        steps.push(format!("{}{index}", current.get_str("stage").unwrap_or_default()));
        stage = current.get_document("inputStage").ok();
    }
    let counts = told.get_document("executionStats")?;
    let count = |name: &str| counts.get(name).and_then(whole).unwrap_or_default();
    Ok(format!(
        "plan: {}; {} keys and {} documents were read",
        steps.join(" < "),
        grouped(count("totalKeysExamined")),
        grouped(count("totalDocsExamined"))
    ))
}

fn whole(value: &Bson) -> Option<u64> {
    let number = value.as_i64().or_else(|| value.as_i32().map(i64::from))?;
    u64::try_from(number).ok()
}

/// A document on one line.
pub(crate) fn json(document: Document) -> Outcome<String> {
    Ok(serde_json::to_string(&Json(Bson::Document(document)))?)
}
