//! An ObjectId split into its parts.

use cairndb::bson::oid::ObjectId;

use crate::outcome::Outcome;
use crate::screen::{Screen, line};

/// Shows the parts of an id that this process has made.
pub(crate) fn show(screen: &mut Screen, id: ObjectId) -> Outcome<()> {
    screen.step("An _id is made without asking a server")?;
    let bytes = id.bytes();
    let [_, _, _, _, machine @ .., high, low, first, second, third] = bytes;
    let counter = u32::from_be_bytes([0, first, second, third]);
    let hex: Vec<String> = machine.iter().map(|byte| format!("{byte:02x}")).collect();
    let time = id.timestamp().try_to_rfc3339_string().unwrap_or_default();
    let process = u16::from_be_bytes([high, low]);
    line(&format!(
        "{id}: made at {time} on machine {}, by process {process}, counter {counter}",
        hex.concat()
    ))
}
