//! What launcher and supervisor tell each other: arguments one way, lines of text the other.
//!
//! ```text
//! supervisor ASK FD [leftovers] [set NAME=VALUE | unset NAME]... -- PROGRAM ARGUMENT...
//! started PID
//! failed ERRNO
//! ended code|signal N name=number...
//! ```

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use towpath_measure::Nanos;

use crate::{Command, DiskIo, End, Exit, Known};

/// First argument of a program that is to be the supervisor.
pub(crate) const ASK: &str = "--towpath-supervise";

/// What a supervisor is to do.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Order {
    pub(crate) report_fd: i32,
    pub(crate) ends_leftovers: bool,
    pub(crate) environment: Vec<(OsString, Option<OsString>)>,
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
}

/// The supervisor's arguments for `command`.
pub(crate) fn order(command: &Command, report_fd: i32) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![ASK.into(), report_fd.to_string().into()];
    if command.ends_leftovers || command.timeout.is_some() {
        words.push("leftovers".into());
    }
    for (name, value) in &command.environment {
        let (verb, word) = match value {
            Some(value) => ("set", joined(name, value)),
            None => ("unset", name.clone()),
        };
        words.push(verb.into());
        words.push(word);
    }
    words.push("--".into());
    words.push(command.program.clone());
    words.extend(command.args.iter().cloned());
    words
}

fn joined(name: &OsStr, value: &OsStr) -> OsString {
    let mut word = name.to_owned();
    word.push("=");
    word.push(value);
    word
}

/// Reads the arguments after the program's name; `None` if they are no order.
pub(crate) fn parse_order(words: impl IntoIterator<Item = OsString>) -> Option<Order> {
    let mut words = words.into_iter();
    if words.next()? != ASK {
        return None;
    }
    let mut order = Order {
        report_fd: words.next()?.to_str()?.parse().ok()?,
        ..Order::default()
    };
    loop {
        match words.next()?.to_str()? {
            "leftovers" => order.ends_leftovers = true,
            "set" => {
                let word = words.next()?.into_vec();
                let equals = word.iter().position(|byte| *byte == b'=')?;
                let (name, value) = word.split_at_checked(equals)?;
                let value = OsStr::from_bytes(value.get(1..)?).to_owned();
                order
                    .environment
                    .push((OsStr::from_bytes(name).to_owned(), Some(value)));
            }
            "unset" => order.environment.push((words.next()?, None)),
            "--" => break,
            _ => return None,
        }
    }
    order.program = words.next()?;
    order.args = words.collect();
    Some(order)
}

/// One line of the supervisor.
#[derive(Clone, Debug)]
pub(crate) enum Report {
    Started(i32),
    Failed(i32),
    Ended(Box<Exit>),
}

impl Report {
    /// The line, with its end.
    pub(crate) fn line(&self) -> String {
        match self {
            Self::Started(pid) => format!("started {pid}\n"),
            Self::Failed(errno) => format!("failed {errno}\n"),
            Self::Ended(exit) => ended_line(exit),
        }
    }

    /// Reads a line without its end; `None` if it is none of these.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (verb, rest) = line.split_once(' ')?;
        match verb {
            "started" => rest.parse().ok().map(Self::Started),
            "failed" => rest.parse().ok().map(Self::Failed),
            "ended" => parse_ended(rest).map(|exit| Self::Ended(Box::new(exit))),
            _ => None,
        }
    }
}

fn ended_line(exit: &Exit) -> String {
    let end = match exit.end {
        End::Code(code) => format!("code {code}"),
        End::Signal(signal) => format!("signal {signal}"),
    };
    let numbers = [
        ("wall", exit.wall.0),
        ("user", exit.user.0),
        ("sys", exit.sys.0),
        ("minor", exit.minor_faults),
        ("major", exit.major_faults),
        ("voluntary", exit.voluntary_switches),
        ("involuntary", exit.involuntary_switches),
        ("rss", exit.max_rss_bytes),
        ("left", exit.left_running),
    ];
    let numbers = numbers
        .map(|(name, number)| format!("{name}={number}"))
        .join(" ");
    let known = |text: Known<String>| match text {
        Known::Value(value) => value,
        // Reasons are the kernel's and hold spaces; the line is split at them.
        Known::Unavailable(reason) => format!("!{}", reason.replace([' ', '\n', '='], "_")),
    };
    let disk = exit.disk.clone().map(|disk| {
        let DiskIo {
            read_bytes,
            write_bytes,
            cancelled_bytes,
        } = disk;
        format!("{read_bytes},{write_bytes},{cancelled_bytes}")
    });
    let queue = exit.run_queue_wait.clone().map(|wait| wait.0.to_string());
    format!(
        "ended {end} {numbers} disk={} queue={}\n",
        known(disk),
        known(queue)
    )
}

fn parse_ended(text: &str) -> Option<Exit> {
    let mut words = text.split(' ');
    let end = match (words.next()?, words.next()?) {
        ("code", number) => End::Code(number.parse().ok()?),
        ("signal", number) => End::Signal(number.parse().ok()?),
        _ => return None,
    };
    let fields: BTreeMap<&str, &str> = words.filter_map(|word| word.split_once('=')).collect();
    let number = |name: &str| fields.get(name)?.parse::<u64>().ok();
    let known = |name: &str| match fields.get(name)?.strip_prefix('!') {
        Some(reason) => Some(Known::Unavailable(reason.replace('_', " "))),
        None => Some(Known::Value((*fields.get(name)?).to_owned())),
    };
    Some(Exit {
        end,
        timed_out: false,
        interrupted_by: None,
        wall: Nanos(number("wall")?),
        user: Nanos(number("user")?),
        sys: Nanos(number("sys")?),
        minor_faults: number("minor")?,
        major_faults: number("major")?,
        voluntary_switches: number("voluntary")?,
        involuntary_switches: number("involuntary")?,
        max_rss_bytes: number("rss")?,
        left_running: number("left")?,
        disk: known("disk")?.map(|text| parse_disk(&text)),
        run_queue_wait: known("queue")?.map(|text| Nanos(text.parse().unwrap_or(0))),
    })
}

fn parse_disk(text: &str) -> DiskIo {
    let mut numbers = text.split(',').map(|number| number.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    DiskIo {
        read_bytes: next(),
        write_bytes: next(),
        cancelled_bytes: next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Supervisor;

    #[test]
    fn an_order_is_read_back_whatever_its_words_hold() {
        let command = Command::new(Supervisor::this_program(), "--")
            .args(["set", "--", "", "x=y"])
            .set("A", "b=c d")
            .set("EMPTY", "")
            .unset("set")
            .end_leftovers();
        let order = parse_order(order(&command, 7)).unwrap();
        assert_eq!(order.report_fd, 7);
        assert!(order.ends_leftovers);
        assert_eq!(order.environment, command.environment);
        assert_eq!(order.program, command.program);
        assert_eq!(order.args, command.args);
    }

    #[test]
    fn what_is_no_order_is_told_from_one() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        for text in [
            "run -- true",
            "",
            ASK,
            &format!("{ASK} 3"),
            &format!("{ASK} 3 what -- a"),
        ] {
            assert!(parse_order(words(text)).is_none(), "{text}");
        }
    }

    #[test]
    fn reports_are_read_back_and_reasons_stay_reasons() {
        let exit = Exit {
            end: End::Signal(9),
            timed_out: false,
            interrupted_by: None,
            wall: Nanos(1),
            user: Nanos(2),
            sys: Nanos(3),
            minor_faults: 4,
            major_faults: 5,
            voluntary_switches: 6,
            involuntary_switches: 7,
            max_rss_bytes: 8,
            disk: Known::Unavailable("no such file = none\n".to_owned()),
            run_queue_wait: Known::Value(Nanos(9)),
            left_running: 10,
        };
        let line = Report::Ended(Box::new(exit.clone())).line();
        let Some(Report::Ended(read)) = Report::parse(line.trim_end_matches('\n')) else {
            panic!("{line}");
        };
        assert_eq!(format!("{:?}", read.end), format!("{:?}", exit.end));
        assert_eq!(read.left_running, 10);
        assert!(read.disk.value().is_none());
        assert_eq!(read.run_queue_wait, exit.run_queue_wait);
        assert!(Report::parse("ended code 300").is_none());
        assert!(Report::parse("").is_none());
    }
}
