//! Change streams: what is checked before the engine opens one, and the label of failures after which a driver goes on by itself.

use cairndb::bson::RawBsonRef;
use query::code::Code;

use crate::auth::users::Role;
use crate::cursors::PagedCursor;
use crate::dispatch::call::Call;
use crate::dispatch::operation::first_stage;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::reply::CursorBatch;

const RESUMABLE: &str = "ResumableChangeStreamError";
/// Failures of clusters after which a driver goes on, as after those that may pass: they come by fail points alone.
const RESUMABLE_CODES: [i32; 5] = [63, 133, 150, 234, 13_388];

/// Rejects a change stream that cannot be: from a server without a replica set, and by a user who may only read where the stream would
/// switch the log of changes on.
pub(super) fn check(call: &Call) -> Result<(), Failure> {
    if call.command.name() != "aggregate" {
        return Ok(());
    }
    let Some((_, options)) = first_stage(call, "$changeStream")? else { return Ok(()) };
    if call.shared.settings.replica_set.is_none() {
        let message = "The $changeStream stage is only supported on replica sets";
        return Err(Failure::new(Code::CHANGE_STREAM_WITHOUT_REPLICA_SET, message));
    }
    let reads_only = call.peer.user().is_some_and(|user| user.role != Role::Root);
    if !call.shared.settings.requires_user || !reads_only {
        return Ok(());
    }
    let options = options.as_document().map(|options| Fields::of("$changeStream", options));
    let is_of_all = options.map(|options| options.boolean("allChangesForCluster")).transpose()?.flatten();
    let database = call.command.database();
    let collection = call.fields().argument()?.and_then(RawBsonRef::as_str);
    if call.client().logs_changes(Some(database).filter(|_| is_of_all != Some(true)), collection) {
        return Ok(());
    }
    let message = format!(
        "not authorized on {database} to log changes, which the first change stream of a collection, a database or all of them begins"
    );
    Err(Failure::new(Code::UNAUTHORIZED, message))
}

/// Fills a batch. The failure of a change stream gets its label.
pub(super) fn fill(
    paged: &mut PagedCursor,
    batch: &mut CursorBatch,
    len: Option<u64>,
) -> Result<bool, Failure> {
    let is_stream = paged.is_stream();
    paged.fill(batch, len).map_err(|failure| labelled(failure, is_stream))
}

/// The failure of a fail point for a `getMore` that has found its cursor.
pub(super) fn fault(call: &Call, paged: &PagedCursor) -> Option<Failure> {
    if !call.shared.settings.has_test_commands {
        return None;
    }
    let code = Code::of(call.shared.fail_points.fault_after_checkout()?);
    let message = "Hit the 'failGetMoreAfterCursorCheckout' failpoint";
    Some(labelled(Failure::new(code, message), paged.is_stream()))
}

fn labelled(failure: Failure, is_stream: bool) -> Failure {
    let is_resumable = Code::of(failure.code()).is_retryable() || RESUMABLE_CODES.contains(&failure.code());
    if is_stream && is_resumable { failure.with_label(RESUMABLE) } else { failure }
}
