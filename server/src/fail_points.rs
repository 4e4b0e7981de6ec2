//! Fail points: faults on demand, with which the test suites of drivers see how a client handles them.
//! MongoDB's `failCommand`, `failGetMoreAfterCursorCheckout`, `maxTimeAlwaysTimeOut` and `onPrimaryTransactionalWrite` are supported, if
//! the server was started with test commands.

use std::time::Duration;

use cairndb::bson::{Bson, Document, RawBsonRef, RawDocument};
use parking_lot::Mutex;
use query::code::Code;

use crate::failure::Failure;
use crate::fields::Fields;
use crate::limits::NAMED_TEXTS_MAX;

/// The longest time for which a fail point blocks a command.
const BLOCK_MAX: Duration = Duration::from_secs(600);
/// The most bytes of the write concern error that a fail point adds to answers.
const ERROR_BYTES_MAX: usize = 4_096;
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
    state: Mutex<FailCommand>,
    /// The trigger of `maxTimeAlwaysTimeOut`, at which every command with a time limit times out.
    time_out: Mutex<Trigger>,
    /// `onPrimaryTransactionalWrite`, for writes that may be sent again.
    write: Mutex<(Trigger, WriteFault)>,
    /// `failGetMoreAfterCursorCheckout`, and the number of the error with which a `getMore` fails that has found its cursor.
    get_more: Mutex<(Trigger, i32)>,
}

/// The effect of `onPrimaryTransactionalWrite` on a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WriteFault {
    /// Whether the connection is closed without an answer.
    pub(crate) closes: bool,
    /// The number of the error with which the write fails before it is done. Without one it is done.
    pub(crate) code: Option<i32>,
}

impl WriteFault {
    fn parse(data: &RawDocument) -> Result<Self, Failure> {
        let fields = Fields::of("data", data);
        fields.allow_all(&["closeConnection", "failBeforeCommitExceptionCode"])?;
        let code = number(fields, "failBeforeCommitExceptionCode")?;
        // Closed unless it is said otherwise, as in MongoDB.
        Ok(Self { closes: fields.boolean("closeConnection")? != Some(false), code })
    }
}

/// The effect of `failCommand` on a command.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct InjectedFault {
    commands: Vec<String>,
    /// Only commands of clients with this application name fail.
    app_name: Option<String>,
    /// The time that the command waits before anything else.
    pub(crate) block: Option<Duration>,
    /// Whether the connection is closed without an answer.
    pub(crate) closes: bool,
    /// The number of the error with which the command fails.
    pub(crate) code: Option<i32>,
    pub(crate) labels: Option<Vec<String>>,
    /// The error in the answer of a command that is nevertheless executed.
    pub(crate) write_concern_error: Option<Document>,
}

/// The fail point `failCommand`.
#[derive(Default)]
struct FailCommand {
    trigger: Trigger,
    fault: InjectedFault,
}

/// Which of the commands that a fail point applies to enter it.
#[derive(Default)]
struct Trigger {
    mode: FailPointMode,
    /// The number of commands that have entered it.
    entered: i64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FailPointMode {
    #[default]
    Off,
    AlwaysOn,
    /// For this number of further commands.
    Times(u64),
    /// For all commands but this number of further ones.
    Skip(u64),
}

impl FailPoints {
    /// `configureFailPoint`. Returns how many commands have entered the fail point before.
    pub(crate) fn configure(&self, fields: Fields<'_>) -> Result<i64, Failure> {
        fields.allow(&["data", "mode"])?;
        let name = fields.text("configureFailPoint")?.ok_or_else(|| fields.missing("configureFailPoint"))?;
        let mode = FailPointMode::parse(fields)?;
        if name == "maxTimeAlwaysTimeOut" {
            fields.document("data")?;
            return Ok(self.time_out.lock().start(mode));
        }
        if name == "onPrimaryTransactionalWrite" {
            let fault = fields.document("data")?.map(WriteFault::parse).transpose()?;
            let mut write = self.write.lock();
            write.1 = fault.unwrap_or(WriteFault { closes: true, code: None });
            return Ok(write.0.start(mode));
        }
        if name == "failGetMoreAfterCursorCheckout" {
            let data = fields.document("data")?.map(|data| Fields::of("data", data));
            data.map_or(Ok(()), |data| data.allow_all(&["closeConnection", "errorCode"]))?;
            if data.map(|data| data.boolean("closeConnection")).transpose()?.flatten() == Some(true) {
                let message = "'closeConnection' of 'failGetMoreAfterCursorCheckout' is not supported";
                return Err(Failure::new(Code::NOT_IMPLEMENTED, message));
            }
            let code = data.map(|data| number(data, "errorCode")).transpose()?.flatten();
            if code.is_none() && mode != FailPointMode::Off {
                return Err(fields.missing("errorCode"));
            }
            let mut get_more = self.get_more.lock();
            get_more.1 = code.unwrap_or_default();
            return Ok(get_more.0.start(mode));
        }
        if name != "failCommand" {
            return Err(Failure::new(Code::FAIL_POINT_SET_FAILED, format!("{name} not found")));
        }
        // Parsed before the lock is acquired: a command that is rejected changes nothing.
        let fault = match fields.document("data")? {
            Some(data) => InjectedFault::parse(data)?,
            None if mode == FailPointMode::Off => InjectedFault::default(),
            None => return Err(fields.missing("data")),
        };
        let mut state = self.state.lock();
        state.fault = fault;
        Ok(state.trigger.start(mode))
    }

    /// Whether a command with a time limit times out now.
    pub(crate) fn times_out(&self) -> bool {
        self.time_out.lock().enter()
    }

    /// The number of the error with which a `getMore` fails that has found its cursor.
    pub(crate) fn fault_after_checkout(&self) -> Option<i32> {
        let mut get_more = self.get_more.lock();
        get_more.0.enter().then_some(get_more.1)
    }

    /// The fault for a write that may be sent again, if it enters a fail point that fails writes before they are done.
    pub(crate) fn fault_before_write(&self) -> Option<WriteFault> {
        let mut write = self.write.lock();
        let enters = write.1.code.is_some() && write.0.enter();
        enters.then_some(write.1)
    }

    /// Whether the answer to a write is lost that may be sent again, and was done now.
    pub(crate) fn loses_answer(&self) -> bool {
        let mut write = self.write.lock();
        write.1.code.is_none() && write.1.closes && write.0.enter()
    }

    /// The fault for a command by its main name, if the command enters the fail point.
    pub(crate) fn fault_for(&self, command: &str, app_name: Option<&str>) -> Option<InjectedFault> {
        let mut state = self.state.lock();
        let fault = &state.fault;
        let is_meant = fault.commands.iter().any(|meant| spelled(meant) == command)
            && fault.app_name.as_deref().is_none_or(|meant| Some(meant) == app_name);
        // Entered only by commands that are meant: the others must not use up `times` or `skip`.
        let meets = is_meant && state.trigger.enter();
        meets.then(|| state.fault.clone())
    }
}

impl Trigger {
    /// Sets the mode. Returns how many commands have entered until now.
    fn start(&mut self, mode: FailPointMode) -> i64 {
        self.mode = mode;
        self.entered
    }

    /// Whether a command that the fail point applies to enters it.
    fn enter(&mut self) -> bool {
        match &mut self.mode {
            FailPointMode::Off => return false,
            FailPointMode::AlwaysOn | FailPointMode::Skip(0) => {}
            FailPointMode::Times(left) => {
                *left -= 1;
                // Off and not `Times(0)`, so that the subtraction above never starts from 0.
                if *left == 0 {
                    self.mode = FailPointMode::Off;
                }
            }
            FailPointMode::Skip(left) => {
                *left -= 1;
                return false;
            }
        }
        self.entered += 1;
        true
    }
}

impl FailPointMode {
    fn parse(fields: Fields<'_>) -> Result<Self, Failure> {
        let mode = fields.value("mode")?.ok_or_else(|| fields.missing("mode"))?;
        // MongoDB accepts a word or a document with a single field.
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
        // Exactly one field: two modes would contradict each other.
        let (Some(name), None) = (name, names.next()) else {
            return Err(Failure::bad_value("a mode that is a document has one field"));
        };
        // A count of 0 has a meaning of its own for `times`, so the arms come before the general ones.
        match (name, fields.count(name)) {
            ("times", Ok(Some(0))) => Ok(Self::Off),
            ("times", Ok(Some(times))) => Ok(Self::Times(times)),
            ("skip", Ok(Some(skipped))) => Ok(Self::Skip(skipped)),
            ("times" | "skip", Ok(None)) => Err(fields.missing(name)),
            ("times" | "skip", Err(failure)) => Err(failure),
            // Suites that need it must fail visibly; a fault that never happens would let them pass.
            ("activationProbability", _) => {
                Err(Failure::new(Code::NOT_IMPLEMENTED, "the mode 'activationProbability' is not supported"))
            }
            (other, _) => Err(Failure::bad_value(format!("unknown mode {other:?}"))),
        }
    }
}

impl InjectedFault {
    fn parse(data: &RawDocument) -> Result<Self, Failure> {
        let fields = Fields::of("data", data);
        fields.allow_all(&FIELDS)?;
        // An empty list is allowed, and no command meets it.
        let commands = texts(fields, "failCommands")?.ok_or_else(|| fields.missing("failCommands"))?;
        let code = number(fields, "errorCode")?;
        let write_concern_error = fields.document("writeConcernError")?;
        let write_concern_error = write_concern_error.map(check_write_concern_error).transpose()?;
        Ok(Self {
            commands,
            app_name: fields.text("appName")?.map(str::to_owned),
            block: block(fields)?,
            closes: fields.boolean("closeConnection")? == Some(true),
            // 0 means that no error is injected, as in MongoDB.
            code: code.filter(|&code| code != 0),
            labels: texts(fields, "errorLabels")?,
            write_concern_error,
        })
    }

    /// The failure of a command with this fault, if it has an error code.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let code = self.code?;
        let message = "Failing command via 'failCommand' failpoint";
        let failure = Failure::new(Code::of(code), message);
        Some(match &self.labels {
            Some(labels) if !labels.is_empty() => failure.with_field("errorLabels", labels.clone()),
            _ => failure,
        })
    }
}

/// The number of an error.
fn number(fields: Fields<'_>, field: &str) -> Result<Option<i32>, Failure> {
    // Parsed as 64 bits first, so that a number that is too large is named in the rejection and not truncated.
    let number = fields.integer(field)?.map(|number| {
        let wrong =
            |_| Failure::bad_value(format!("the field '{field}' must be a 32-bit number, got {number}"));
        i32::try_from(number).map_err(wrong)
    });
    number.transpose()
}

/// The main name of a command that has several: the one in MongoDB's documentation.
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
    // `blockTimeMS` alone has no effect, but its type is checked above.
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
    let Some(values) = fields.array(field, NAMED_TEXTS_MAX)? else { return Ok(None) };
    let text = |value: Result<RawBsonRef<'_>, _>| {
        let value = value?;
        let text = value.as_str().map(str::to_owned);
        text.ok_or_else(|| fields.wrong_type(field, value, "string"))
    };
    values.into_iter().map(text).collect::<Result<_, Failure>>().map(Some)
}

/// Checks a write concern error, and adds the name of its code if it has none.
fn check_write_concern_error(error: &RawDocument) -> Result<Document, Failure> {
    let fields = Fields::of("writeConcernError", error);
    let code = fields.integer("code")?.ok_or_else(|| fields.missing("code"))?;
    fields.text("errmsg")?;
    texts(fields, "errorLabels")?;
    // Its values come back in answers as they are. A long one could be nested too deeply to be decoded.
    if error.as_bytes().len() > ERROR_BYTES_MAX {
        let message = format!("writeConcernError has more than {ERROR_BYTES_MAX} bytes");
        return Err(Failure::new(Code::BAD_VALUE, message));
    }
    let mut error = Document::try_from(error)?;
    // Drivers show the name, and MongoDB always sends one.
    if !error.contains_key("codeName") {
        let name = i32::try_from(code)
            .map_or_else(|_| format!("Location{code}"), |code| Code::of(code).name().into_owned());
        error.insert("codeName", Bson::String(name));
    }
    Ok(error)
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
        (0..4).map(|_| points.fault_for("ping", None).is_some()).collect()
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
        assert!(points.fault_for("find", None).is_none());
        assert!(points.fault_for("find", Some("other")).is_none());
        assert!(points.fault_for("ping", Some("shop")).is_none());
        assert!(points.fault_for("find", Some("shop")).is_some_and(|fault| fault.closes));
        assert!(points.fault_for("insert", Some("shop")).is_some());
        assert!(points.fault_for("insert", Some("shop")).is_none());
        assert_eq!(configure(&points, "off", None), Ok(2));
    }

    #[track_caller]
    fn refuse(mode: impl Into<Bson>, data: Document, code: i32) {
        let points = FailPoints::default();
        assert_eq!(configure(&points, mode, Some(data)), Err(code));
        assert!(points.fault_for("ping", None).is_none());
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
