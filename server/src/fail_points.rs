//! Faults on demand, by which the suites of drivers see how a client takes them: MongoDB's `failCommand` and
//! `maxTimeAlwaysTimeOut`. There are none unless the server was started with test commands.

use std::time::Duration;

use cairndb::bson::{Bson, Document, RawBsonRef, RawDocument};
use parking_lot::Mutex;

use crate::failure::Failure;
use crate::fields::Fields;

/// The longest that a command is held up.
const BLOCK_MAX: Duration = Duration::from_secs(600);
const FIELDS: [&str; 9] = [
    "appName",
    "blockConnection",
    "blockTimeMS",
    "closeConnection",
    "errorCode",
    "errorLabels",
    "failCommands",
    "failInternalCommands",
    "writeConcernError",
];

/// The fail points of a server.
#[derive(Default)]
pub(crate) struct FailPoints {
    state: Mutex<State>,
    /// Of `maxTimeAlwaysTimeOut`: the time of every command that has a limit is over.
    time_out: Mutex<Meetings>,
}

/// What is done to a command.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Fault {
    commands: Vec<String>,
    /// Only connections that say this name of themselves.
    app_name: Option<String>,
    /// How long the command waits first.
    pub(crate) block: Option<Duration>,
    /// Whether the connection is closed without an answer.
    pub(crate) closes: bool,
    /// The number with which it is refused.
    pub(crate) code: Option<i32>,
    pub(crate) labels: Option<Vec<String>>,
    /// What stands in the answer of a command that is done all the same.
    pub(crate) write_concern_error: Option<Document>,
}

#[derive(Default)]
struct State {
    meetings: Meetings,
    fault: Fault,
}

/// Which of the commands that are meant meet a fail point.
#[derive(Default)]
struct Meetings {
    mode: Mode,
    /// How many have met it.
    met: i64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Off,
    AlwaysOn,
    /// For so many more commands.
    Times(u64),
    /// For all but so many more.
    Skip(u64),
}

impl FailPoints {
    /// `configureFailPoint`; gives how many commands have met what was there before.
    pub(crate) fn configure(&self, fields: Fields<'_>) -> Result<i64, Failure> {
        fields.allow(&["data", "mode"])?;
        let name = fields.text("configureFailPoint")?.ok_or_else(|| fields.missing("configureFailPoint"))?;
        let mode = Mode::parse(fields)?;
        if name == "maxTimeAlwaysTimeOut" {
            fields.document("data")?;
            return Ok(self.time_out.lock().start(mode));
        }
        if name != "failCommand" {
            return Err(Failure::new(266, "FailPointSetFailed", format!("{name} not found")));
        }
        let fault = match fields.document("data")? {
            Some(data) => Fault::parse(data)?,
            None if mode == Mode::Off => Fault::default(),
            None => return Err(fields.missing("data")),
        };
        let mut state = self.state.lock();
        state.fault = fault;
        Ok(state.meetings.start(mode))
    }

    /// Whether the time of a command that has a limit of time is over.
    pub(crate) fn times_out(&self) -> bool {
        self.time_out.lock().meet()
    }

    /// The fault for a command, by the first of its names, if it is one that shall meet it.
    pub(crate) fn meet(&self, command: &str, app_name: Option<&str>) -> Option<Fault> {
        let mut state = self.state.lock();
        let fault = &state.fault;
        let is_meant = fault.commands.iter().any(|meant| spelled(meant) == command)
            && fault.app_name.as_deref().is_none_or(|meant| Some(meant) == app_name);
        let meets = is_meant && state.meetings.meet();
        meets.then(|| state.fault.clone())
    }
}

impl Meetings {
    /// Begins anew; gives how many have met it until now.
    fn start(&mut self, mode: Mode) -> i64 {
        self.mode = mode;
        self.met
    }

    fn meet(&mut self) -> bool {
        match &mut self.mode {
            Mode::Off => return false,
            Mode::AlwaysOn | Mode::Skip(0) => {}
            Mode::Times(left) => {
                *left -= 1;
                if *left == 0 {
                    self.mode = Mode::Off;
                }
            }
            Mode::Skip(left) => {
                *left -= 1;
                return false;
            }
        }
        self.met += 1;
        true
    }
}

impl Mode {
    fn parse(fields: Fields<'_>) -> Result<Self, Failure> {
        let mode = fields.value("mode")?.ok_or_else(|| fields.missing("mode"))?;
        match (mode.as_str(), mode.as_document()) {
            (Some("off"), _) => Ok(Self::Off),
            (Some("alwaysOn"), _) => Ok(Self::AlwaysOn),
            (Some(other), _) => Err(Failure::bad_value(format!("unknown mode {other:?}"))),
            (None, Some(mode)) => Self::parse_count(mode),
            (None, None) => Err(fields.wrong_type("mode", mode, "string or object")),
        }
    }

    fn parse_count(mode: &RawDocument) -> Result<Self, Failure> {
        let fields = Fields::of("mode", mode);
        let mut names = mode.iter();
        let name = names.next().transpose()?.map(|(name, _)| name.as_str());
        let (Some(name), None) = (name, names.next()) else {
            return Err(Failure::bad_value("a mode that is a document has one field"));
        };
        match (name, fields.count(name)) {
            ("times", Ok(Some(0))) => Ok(Self::Off),
            ("times", Ok(Some(times))) => Ok(Self::Times(times)),
            ("skip", Ok(Some(skipped))) => Ok(Self::Skip(skipped)),
            ("times" | "skip", Ok(None)) => Err(fields.missing(name)),
            ("times" | "skip", Err(failure)) => Err(failure),
            ("activationProbability", _) => {
                Err(Failure::new(238, "NotImplemented", "the mode 'activationProbability' is not supported"))
            }
            (other, _) => Err(Failure::bad_value(format!("unknown mode {other:?}"))),
        }
    }
}

impl Fault {
    fn parse(data: &RawDocument) -> Result<Self, Failure> {
        let fields = Fields::of("data", data);
        fields.allow_all(&FIELDS)?;
        let commands = texts(fields, "failCommands")?.ok_or_else(|| fields.missing("failCommands"))?;
        let code = fields.integer("errorCode")?;
        let code = code.map(|code| {
            i32::try_from(code).map_err(|_| {
                Failure::bad_value(format!("the field 'errorCode' must be a 32-bit number, got {code}"))
            })
        });
        let write_concern_error = fields.document("writeConcernError")?;
        let write_concern_error = write_concern_error.map(check_write_concern_error).transpose()?;
        Ok(Self {
            commands,
            app_name: fields.text("appName")?.map(str::to_owned),
            block: block(fields)?,
            closes: fields.boolean("closeConnection")? == Some(true),
            code: code.transpose()?.filter(|&code| code != 0),
            labels: texts(fields, "errorLabels")?,
            write_concern_error,
        })
    }

    /// What the command is refused with.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let code = self.code?;
        let message = "Failing command via 'failCommand' failpoint";
        let failure = Failure::new(code, &code_name(code), message);
        Some(match &self.labels {
            Some(labels) if !labels.is_empty() => failure.beside("errorLabels", labels.clone()),
            _ => failure,
        })
    }
}

/// The name of a command that has several: the one in MongoDB's documentation.
pub(crate) fn spelled(name: &str) -> &str {
    match name {
        "buildinfo" => "buildInfo",
        "collstats" => "collStats",
        "dbstats" => "dbStats",
        "deleteIndexes" => "dropIndexes",
        "findandmodify" => "findAndModify",
        "ismaster" => "isMaster",
        other => other,
    }
}

fn block(fields: Fields<'_>) -> Result<Option<Duration>, Failure> {
    let time = fields.count("blockTimeMS")?.map(Duration::from_millis);
    if fields.boolean("blockConnection")? != Some(true) {
        return Ok(None);
    }
    let time = time.ok_or_else(|| fields.missing("blockTimeMS"))?;
    if time > BLOCK_MAX {
        let limit = BLOCK_MAX.as_millis();
        return Err(Failure::bad_value(format!("the field 'blockTimeMS' must be at most {limit}")));
    }
    Ok(Some(time))
}

fn texts(fields: Fields<'_>, field: &str) -> Result<Option<Vec<String>>, Failure> {
    let Some(values) = fields.array(field)? else { return Ok(None) };
    let text = |value: Result<RawBsonRef<'_>, _>| {
        let value = value?;
        let text = value.as_str().map(str::to_owned);
        text.ok_or_else(|| fields.wrong_type(field, value, "string"))
    };
    values.into_iter().map(text).collect::<Result<_, Failure>>().map(Some)
}

/// With a number and, if it has none, with the number's name.
fn check_write_concern_error(error: &RawDocument) -> Result<Document, Failure> {
    let fields = Fields::of("writeConcernError", error);
    let code = fields.integer("code")?.ok_or_else(|| fields.missing("code"))?;
    fields.text("errmsg")?;
    texts(fields, "errorLabels")?;
    let mut error = Document::try_from(error)?;
    if !error.contains_key("codeName") {
        let name = i32::try_from(code).map_or_else(|_| format!("Location{code}"), code_name);
        error.insert("codeName", Bson::String(name));
    }
    Ok(error)
}

/// MongoDB's names of the numbers that drivers are tested with.
fn code_name(code: i32) -> String {
    let name = match code {
        2 => "BadValue",
        6 => "HostUnreachable",
        7 => "HostNotFound",
        8 => "UnknownError",
        10 => "CannotGrowDocumentInCappedNamespace",
        18 => "AuthenticationFailed",
        24 => "LockTimeout",
        43 => "CursorNotFound",
        50 => "MaxTimeMSExpired",
        59 => "CommandNotFound",
        64 => "WriteConcernTimeout",
        79 => "UnknownReplWriteConcern",
        89 => "NetworkTimeout",
        91 => "ShutdownInProgress",
        100 => "UnsatisfiableWriteConcern",
        112 => "WriteConflict",
        121 => "DocumentValidationFailure",
        133 => "FailedToSatisfyReadPreference",
        134 => "ReadConcernMajorityNotAvailableYet",
        189 => "PrimarySteppedDown",
        234 => "RetryChangeStream",
        251 => "NoSuchTransaction",
        262 => "ExceededTimeLimit",
        391 => "ReauthenticationRequired",
        9001 => "SocketException",
        10_107 => "NotWritablePrimary",
        11_000 => "DuplicateKey",
        11_600 => "InterruptedAtShutdown",
        11_601 => "Interrupted",
        11_602 => "InterruptedDueToReplStateChange",
        13_435 => "NotPrimaryNoSecondaryOk",
        13_436 => "NotPrimaryOrSecondary",
        other => return format!("Location{other}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use cairndb::bson::{RawDocumentBuf, doc};

    use super::*;

    fn configure(points: &FailPoints, mode: impl Into<Bson>, data: Option<Document>) -> Result<i64, i32> {
        let mut command = doc! { "configureFailPoint": "failCommand", "mode": mode.into() };
        command.extend(data.map(|data| doc! { "data": data }).unwrap_or_default());
        let command = RawDocumentBuf::try_from(&command).expect("encoded");
        points.configure(Fields::of("configureFailPoint", &command)).map_err(|failure| failure.code())
    }

    fn met(mode: impl Into<Bson>) -> Vec<bool> {
        let points = FailPoints::default();
        let data = doc! { "failCommands": ["ping"], "errorCode": 50 };
        configure(&points, mode, Some(data)).expect("configured");
        (0..4).map(|_| points.meet("ping", None).is_some()).collect()
    }

    #[test]
    fn a_mode_says_which_commands_meet_it() {
        assert_eq!(met("off"), [false; 4]);
        assert_eq!(met("alwaysOn"), [true; 4]);
        assert_eq!(met(doc! { "times": 2 }), [true, true, false, false]);
        assert_eq!(met(doc! { "times": 0 }), [false; 4]);
        assert_eq!(met(doc! { "skip": 3 }), [false, false, false, true]);
        assert_eq!(met(doc! { "skip": 0 }), [true; 4]);
    }

    #[test]
    fn only_the_commands_and_clients_that_are_named_meet_it() {
        let points = FailPoints::default();
        let data = doc! { "failCommands": ["find", "insert"], "appName": "shop", "closeConnection": true };
        configure(&points, doc! { "times": 2 }, Some(data)).expect("configured");
        assert!(points.meet("find", None).is_none());
        assert!(points.meet("find", Some("other")).is_none());
        assert!(points.meet("ping", Some("shop")).is_none());
        assert!(points.meet("find", Some("shop")).is_some_and(|fault| fault.closes));
        assert!(points.meet("insert", Some("shop")).is_some());
        assert!(points.meet("insert", Some("shop")).is_none());
        assert_eq!(configure(&points, "off", None), Ok(2));
    }

    #[track_caller]
    fn refuse(mode: impl Into<Bson>, data: Document, code: i32) {
        let points = FailPoints::default();
        assert_eq!(configure(&points, mode, Some(data)), Err(code));
        assert!(points.meet("ping", None).is_none());
    }

    #[test]
    fn malformed_ones_are_refused_and_change_nothing() {
        let good = || doc! { "failCommands": ["ping"] };
        let with = |extra: Document| good().into_iter().chain(extra).collect::<Document>();
        refuse("sometimes", good(), 2);
        refuse(1, good(), 14);
        refuse(doc! {}, good(), 2);
        refuse(doc! { "times": 1, "skip": 1 }, good(), 2);
        refuse(doc! { "times": -1 }, good(), 51_024);
        refuse(doc! { "times": "a" }, good(), 14);
        refuse(doc! { "often": 1 }, good(), 2);
        refuse(doc! { "activationProbability": 0.5 }, good(), 238);
        refuse("alwaysOn", doc! {}, 40_414);
        refuse("alwaysOn", doc! { "failCommands": "ping" }, 14);
        refuse("alwaysOn", doc! { "failCommands": [1] }, 14);
        refuse("alwaysOn", with(doc! { "unknown": 1 }), 40_415);
        refuse("alwaysOn", with(doc! { "errorCode": "a" }), 14);
        refuse("alwaysOn", with(doc! { "errorCode": 1_i64 << 40 }), 2);
        refuse("alwaysOn", with(doc! { "errorLabels": "a" }), 14);
        refuse("alwaysOn", with(doc! { "closeConnection": "a" }), 14);
        refuse("alwaysOn", with(doc! { "blockConnection": true }), 40_414);
        refuse("alwaysOn", with(doc! { "blockConnection": true, "blockTimeMS": -1 }), 51_024);
        refuse("alwaysOn", with(doc! { "blockConnection": true, "blockTimeMS": 600_001 }), 2);
        refuse("alwaysOn", with(doc! { "writeConcernError": {} }), 40_414);
        refuse("alwaysOn", with(doc! { "writeConcernError": { "code": "a" } }), 14);
        refuse("alwaysOn", with(doc! { "appName": 1 }), 14);
        let points = FailPoints::default();
        assert_eq!(configure(&points, "alwaysOn", None), Err(40_414));
    }
}
