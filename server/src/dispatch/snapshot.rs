//! Reads with the read concern `snapshot` outside of transactions: several of them are of one state, by its time.

use cairndb::ClientSession;
use cairndb::bson::Timestamp;
use query::code::Code;

use crate::dispatch::call::Call;
use crate::dispatch::transaction::ReadConcernFields;
use crate::failure::Failure;

/// Commands that may read so.
const READS: [&str; 3] = ["aggregate", "distinct", "find"];

/// A read of one state.
pub(super) struct SnapshotRead {
    pub(super) session: ClientSession,
    /// The time of the state, if the client has asked for it.
    time: Option<Timestamp>,
}

/// The read of one state that the command is, if it is one.
pub(super) fn of(call: &Call) -> Result<Option<SnapshotRead>, Failure> {
    if call.shared.settings.replica_set.is_none() || call.transaction().is_some() {
        return Ok(None);
    }
    let Some(concern) = call.fields().document("readConcern")? else { return Ok(None) };
    let concern = ReadConcernFields::read(concern)?;
    if concern.level != Some("snapshot") {
        return Ok(None);
    }
    let name = call.command.name();
    let refused = |message: String| Err(Failure::new(Code::INVALID_OPTIONS, message));
    if !READS.contains(&name) {
        return refused(format!("'{name}' cannot have the read concern 'snapshot' outside of a transaction"));
    }
    if concern.after.is_some() {
        return refused("'afterClusterTime' cannot be given with the read concern 'snapshot'".to_owned());
    }
    // The client without the token of the command: what a session keeps outlasts it.
    let client = call.peer.client();
    let mut starting = client.start_session().snapshot(true);
    if let Some(time) = concern.at {
        starting = starting.snapshot_time(time);
    }
    Ok(Some(SnapshotRead { session: starting.run()?, time: concern.at }))
}

impl SnapshotRead {
    /// The time of the state, once it was read. It is kept for the reads that follow.
    pub(super) fn keep(self, call: &Call) -> Option<Timestamp> {
        let Self { session, time } = self;
        if time.is_some() {
            return time;
        }
        let time = session.snapshot_time();
        drop(call.shared.snapshots.keep(session, call.user_name(), call.portion()));
        time
    }
}
