//! The replica set that a server is: of one member, itself. Drivers send transactions and retryable writes to nothing else.
//!
//! There is no replication. What a set has beside its one member is reported as it never changes: one term, one election, one
//! configuration.

use std::time::{SystemTime, UNIX_EPOCH};

use cairndb::Client;
use cairndb::bson::oid::ObjectId;
use cairndb::bson::{DateTime, Document, Timestamp, doc};

/// The most bytes of a name.
const NAME_BYTES_MAX: usize = 64;
/// The most bytes of an address.
const ADDRESS_BYTES_MAX: usize = 320;
/// The election that the member has won. The same one after every start, or drivers would mistake the server for an outdated member.
const ELECTION: [u8; 12] = [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 1];
const TERM: i64 = 1;

/// A replica set of one.
#[derive(Debug)]
pub(crate) struct ReplicaSet {
    name: String,
    /// The address of the member, as clients reach it.
    member: String,
    /// Identifies the set.
    id: ObjectId,
    started: SystemTime,
    /// Has the clock: times in replies are comparable with those of changes.
    client: Client,
}

impl ReplicaSet {
    pub(crate) fn new(name: String, member: String, client: Client) -> Self {
        Self { name, member, id: ObjectId::new(), started: SystemTime::now(), client }
    }

    /// The time of this moment, which is never earlier than one before. What clients send moves nothing.
    pub(crate) fn next_time(&self) -> Timestamp {
        self.client.time()
    }

    /// The fields of a hello about the set.
    pub(crate) fn hello(&self) -> Document {
        let (at, date) = (self.next_time(), DateTime::now());
        let optime = doc! { "ts": at, "t": TERM };
        // The same text wherever the member is named: drivers leave a server that calls itself otherwise than the list does.
        doc! {
            "hosts": [&self.member],
            "setName": &self.name,
            "setVersion": 1,
            "secondary": false,
            "primary": &self.member,
            "me": &self.member,
            "electionId": ObjectId::from_bytes(ELECTION),
            "lastWrite": {
                "opTime": optime.clone(),
                "lastWriteDate": date,
                "majorityOpTime": optime,
                "majorityWriteDate": date,
            },
        }
    }

    /// `replSetGetStatus`.
    pub(crate) fn status(&self) -> Document {
        let (at, date) = (self.next_time(), DateTime::now());
        let optime = doc! { "ts": at, "t": TERM };
        let uptime = self.started.elapsed().unwrap_or_default().as_secs();
        let elected = DateTime::from_system_time(self.started);
        let election = self.started.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        doc! {
            "set": &self.name,
            "date": date,
            "myState": 1,
            "term": TERM,
            "syncSourceHost": "",
            "syncSourceId": -1,
            "heartbeatIntervalMillis": 2000_i64,
            "majorityVoteCount": 1,
            "writeMajorityCount": 1,
            "votingMembersCount": 1,
            "writableVotingMembersCount": 1,
            "optimes": {
                "lastCommittedOpTime": optime.clone(),
                "lastCommittedWallTime": date,
                "readConcernMajorityOpTime": optime.clone(),
                "appliedOpTime": optime.clone(),
                "durableOpTime": optime.clone(),
                "lastAppliedWallTime": date,
                "lastDurableWallTime": date,
            },
            "members": [{
                "_id": 0,
                "name": &self.member,
                "health": 1.0,
                "state": 1,
                "stateStr": "PRIMARY",
                "uptime": i64::try_from(uptime).unwrap_or(i64::MAX),
                "optime": optime,
                "optimeDate": date,
                "lastAppliedWallTime": date,
                "lastDurableWallTime": date,
                "syncSourceHost": "",
                "syncSourceId": -1,
                "infoMessage": "",
                "electionTime": timestamp(election << 32 | 1),
                "electionDate": elected,
                "configVersion": 1,
                "configTerm": TERM,
                "self": true,
                "lastHeartbeatMessage": "",
            }],
        }
    }

    /// `replSetGetConfig`.
    pub(crate) fn configuration(&self) -> Document {
        doc! {
            "config": {
                "_id": &self.name,
                "version": 1,
                "term": TERM,
                "members": [{
                    "_id": 0,
                    "host": &self.member,
                    "arbiterOnly": false,
                    "buildIndexes": true,
                    "hidden": false,
                    "priority": 1.0,
                    "tags": {},
                    "secondaryDelaySecs": 0_i64,
                    "votes": 1,
                }],
                "protocolVersion": 1_i64,
                "writeConcernMajorityJournalDefault": true,
                "settings": {
                    "chainingAllowed": true,
                    "heartbeatIntervalMillis": 2000,
                    "heartbeatTimeoutSecs": 10,
                    "electionTimeoutMillis": 10_000,
                    "catchUpTimeoutMillis": -1,
                    "catchUpTakeoverDelayMillis": 30_000,
                    "getLastErrorModes": {},
                    "getLastErrorDefaults": { "w": 1, "wtimeout": 0 },
                    "replicaSetId": self.id,
                },
            },
        }
    }
}

/// The reason why a string cannot be the name of a replica set. Returns `None` if it can.
pub(crate) fn refuse_name(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("the name of a replica set is empty".to_owned());
    }
    if name.len() > NAME_BYTES_MAX {
        let len = name.len();
        return Some(format!("the name of a replica set has at most {NAME_BYTES_MAX} bytes, not {len}"));
    }
    // Before a `/` stands the name where a set is written with its hosts; blanks and control characters are mistakes.
    let is_wrong = |letter: char| letter == '/' || letter.is_whitespace() || letter.is_control();
    let wrong = name.chars().find(|letter| is_wrong(*letter))?;
    Some(format!("the name of a replica set {name:?} has the character {wrong:?}"))
}

/// Reads `HOST:PORT`. Returns it as clients compare it, or why it cannot be an address.
pub(crate) fn parse_member(address: &str) -> Result<String, String> {
    let refused = |why: &str| Err(format!("{address:?} cannot be the address of a replica set: {why}"));
    if address.len() > ADDRESS_BYTES_MAX {
        return Err(format!("the address of a replica set has at most {ADDRESS_BYTES_MAX} bytes"));
    }
    let Some((host, port)) = address.rsplit_once(':') else { return refused("it has no port") };
    if !port.bytes().all(|byte| byte.is_ascii_digit()) || port.parse::<u16>().map_or(true, |port| port == 0) {
        return refused("its port is not a number from 1 to 65535");
    }
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = if let Some(inner) = inner {
        inner.parse::<std::net::Ipv6Addr>().is_ok_and(|ip| !ip.is_unspecified())
    } else {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        !host.is_empty()
            && host.bytes().all(is_letter)
            && host.parse::<std::net::Ipv4Addr>().map_or(true, |ip| !ip.is_unspecified())
    };
    if !is_host {
        return refused(
            "its host is not a name, an IPv4 address or an IPv6 address in brackets that clients could reach",
        );
    }
    // Drivers compare hosts in small letters.
    Ok(address.to_ascii_lowercase())
}

fn timestamp(value: u64) -> Timestamp {
    // The upper half are the seconds, the lower the counter.
    let half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(u32::MAX);
    Timestamp { time: half(value >> 32), increment: half(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_ascend() {
        let client = Client::in_memory().expect("a database in memory");
        let set = ReplicaSet::new("rs".to_owned(), "localhost:1".to_owned(), client);
        let mut last = set.next_time();
        for _ in 0..1000 {
            let next = set.next_time();
            assert!((next.time, next.increment) > (last.time, last.increment));
            last = next;
        }
    }

    #[track_caller]
    fn member(address: &str, expected: Option<&str>) {
        assert_eq!(parse_member(address).ok().as_deref(), expected, "{address}");
    }

    #[test]
    fn an_address_is_a_host_and_a_port() {
        member("localhost:27017", Some("localhost:27017"));
        member("Shop.Example.org:1", Some("shop.example.org:1"));
        member("[::1]:27017", Some("[::1]:27017"));
        member("192.0.2.1:65535", Some("192.0.2.1:65535"));
        for wrong in [
            "",
            ":",
            "localhost",
            "localhost:",
            "localhost:0",
            "localhost:65536",
            "localhost:+1",
            ":27017",
            "::1:27017",
            "[::]:1",
            "0.0.0.0:1",
            "a b:1",
            "a/b:1",
            "[localhost]:1",
            "ä:1",
            "a:1,b:2",
        ] {
            member(wrong, None);
        }
        member(&format!("{}:1", "a".repeat(400)), None);
    }

    #[test]
    fn a_name_is_short_and_has_no_blanks() {
        assert_eq!(refuse_name("rs0"), None);
        assert_eq!(refuse_name(&"x".repeat(64)), None);
        for wrong in ["", "a b", "a/b", "a\0", &"x".repeat(65)] {
            assert!(refuse_name(wrong).is_some(), "{wrong:?}");
        }
    }
}
