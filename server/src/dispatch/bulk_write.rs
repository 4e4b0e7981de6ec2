//! `bulkWrite`: the engine does the writes, and the server gives the results in batches.

use cairndb::bson::{Bson, RawDocumentBuf};

use crate::dispatch::call::Call;
use crate::dispatch::{cursor, engine};
use crate::failure::Failure;
use crate::reply::Reply;

pub(super) fn bulk_write(call: &Call) -> Result<Reply, Failure> {
    let len = cursor::first_batch_len(call.command.name(), call.fields())?;
    let mut answer = engine::forward_answer(call)?;
    let Ok(made) = answer.get_document_mut("cursor") else { return Ok(answer.into()) };
    let results = match made.remove("firstBatch") {
        Some(Bson::Array(results)) => results,
        Some(_) | None => Vec::new(),
    };
    let namespace = made.get_str("ns").unwrap_or_default().to_owned();
    answer.remove("cursor");
    answer.remove("ok");
    let fields = RawDocumentBuf::try_from(&answer)?;
    let reply = cursor::open_list(call, encoded(results)?, len, &namespace)?;
    Ok(reply.with_fields(&fields))
}

/// The results in the bytes of their replies. Each is given up once it is encoded.
fn encoded(results: Vec<Bson>) -> Result<Vec<RawDocumentBuf>, Failure> {
    let encode = |result: Bson| {
        let Bson::Document(fields) = result else {
            return Err(Failure::internal(format!("a result of a write is not a document: {result}")));
        };
        Ok(RawDocumentBuf::try_from(&fields)?)
    };
    results.into_iter().map(encode).collect()
}
