//! Every function of the header with everything that is wrong, and from every place that a program may call from.
//!
//! The calls are made from `towpath.h`: a new function is among them, and a parameter of a kind that is not known yet
//! fails the test until `tests/c/every.h` has an argument for it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use towpath_needs::{Need, artifact, can_run};

use crate::common::{Installed, says_ok, source, valgrind};

const NEEDS: [Need; 2] = [Need::Cc, Need::Pocl];

/// Parts of `every_wrong.c`; a look at freed memory is one that the checkers would find.
const WRONG: [&str; 4] = ["nulls", "numbers", "kinds", "foreign"];

#[test]
fn every_function_answers_wrong_arguments_by_a_status() {
    each_of("every_wrong.c", &[&WRONG[..], &["freed"]].concat());
}

#[test]
fn every_function_works_from_wherever_a_program_may_call_it() {
    let parts = [
        "threads",
        "callbacks",
        "forked",
        "interrupted",
        "closed",
        "ending",
    ];
    each_of("every_where.c", &parts);
}

#[test]
fn ten_thousand_handles_of_every_kind_leave_nothing() {
    each_of("every_where.c", &["many"]);
}

fn each_of(name: &str, parts: &[&str]) {
    if !can_run(&NEEDS) {
        return;
    }
    let installed = Installed::new();
    let program = build(&installed, name, &[]);
    for part in parts {
        let mut command = Command::new(&program);
        says_ok(arguments(&installed, &mut command, part));
    }
}

#[test]
fn no_wrong_argument_is_looked_at_further_than_it_may() {
    if !can_run(&NEEDS) || !can_run(&[Need::Valgrind]) {
        return;
    }
    let installed = Installed::new();
    for (name, parts) in [
        ("every_wrong.c", &WRONG[..]),
        ("every_where.c", &["callbacks"]),
    ] {
        let program = build(&installed, name, &[]);
        for part in parts {
            let mut valgrind = valgrind();
            valgrind.arg(&program);
            says_ok(arguments(&installed, &mut valgrind, part));
        }
    }
}

#[test]
fn every_function_is_clean_under_address_sanitizer() {
    if !can_run(&NEEDS) {
        return;
    }
    let installed = Installed::new();
    for (name, parts) in [
        ("every_wrong.c", &WRONG[..]),
        ("every_where.c", &["callbacks"]),
    ] {
        let program = build(&installed, name, &["-fsanitize=address,undefined"]);
        for part in parts {
            let mut command = Command::new(&program);
            // The loader's and the drivers' own, which Valgrind tells apart.
            command.env("ASAN_OPTIONS", "detect_leaks=0");
            says_ok(arguments(&installed, &mut command, part));
        }
    }
}

fn build(installed: &Installed, name: &str, more: &[&str]) -> std::path::PathBuf {
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/towpath.h");
    let calls = calls(&fs::read_to_string(header).unwrap());
    fs::write(installed.path().join("calls.h"), calls).unwrap();
    let folder = format!("-I{}", installed.path().display());
    let words = [&["-std=c11", &folder, "-lOpenCL", "-ldl"], more].concat();
    installed.build("cc", &source(name), &words)
}

fn arguments<'a>(installed: &Installed, command: &'a mut Command, part: &str) -> &'a mut Command {
    command
        .arg(part)
        .arg(artifact("libtowpath.so"))
        .arg(installed.copy("another.so"))
        .arg(installed.path().join(format!("files-of-{part}")))
        .env("OCL_ICD_VENDORS", artifact("libtowpath_fake_opencl.so"))
}

/// A function of the header.
struct Function<'a> {
    answer: &'a str,
    name: &'a str,
    /// Type and name of each.
    parameters: Vec<(&'a str, &'a str)>,
}

/// Tables of all functions, and of the kinds of handles, in C.
fn calls(header: &str) -> String {
    let bare = without_comments(header);
    let functions = functions(&bare);
    assert!(functions.len() > 50, "{}", functions.len());
    let mut c = "struct api {\n".to_owned();
    for one in &functions {
        let types: Vec<&str> = one.parameters.iter().map(|(kind, _)| *kind).collect();
        writeln!(
            c,
            "    {} (*{})({});",
            one.answer,
            one.name,
            types.join(", ")
        )
        .unwrap();
    }
    c += "};\n\nstatic void load(struct api *api, void *library)\n{\n";
    for one in &functions {
        writeln!(
            c,
            "    *(void **)&api->{0} = symbol(library, \"{0}\");",
            one.name
        )
        .unwrap();
    }
    c += "}\n\n";
    for one in &functions {
        let arguments: Vec<String> = one.parameters.iter().enumerate().map(argument).collect();
        let name = one.name;
        let is_status = i32::from(one.answer == "enum tp_status");
        writeln!(
            c,
            "static long call_{name}(const struct api *api, const union value *v)\n{{"
        )
        .unwrap();
        let call = format!("api->{name}({})", arguments.join(", "));
        // What is no status has no error.
        let answer = if is_status == 1 {
            call
        } else {
            format!("((void){call}, TP_OK)")
        };
        writeln!(c, "    return (long){answer};\n}}\n").unwrap();
    }
    c += "static const struct function FUNCTIONS[] = {\n";
    for one in &functions {
        let list: Vec<String> = one.parameters.iter().map(described).collect();
        writeln!(
            c,
            "    {{ \"{0}\", call_{0}, {1}, {{ {2} }} }},",
            one.name,
            list.len(),
            list.join(", ")
        )
        .unwrap();
    }
    c += "};\n\nstatic const char *const KINDS[] = {\n";
    for kind in kinds(&bare) {
        writeln!(c, "    \"{kind}\",").unwrap();
    }
    c + "};\n"
}

fn argument((place, (kind, _)): (usize, &(&str, &str))) -> String {
    let field = match *kind {
        "tp_blob_source" => "function",
        "double" => "real",
        kind if kind.contains('*') => return format!("({kind})v[{place}].pointer"),
        _ => "number",
    };
    format!("v[{place}].{field}")
}

fn described((kind, name): &(&str, &str)) -> String {
    let is = match *kind {
        "tp_blob_source" => "FUNCTION",
        "double" => "REAL",
        kind if kind.contains('*') => "POINTER",
        _ => "NUMBER",
    };
    format!("{{ {is}, \"{kind}\", \"{name}\" }}")
}

fn without_comments(header: &str) -> String {
    let mut parts = header.split("/*");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once("*/").unwrap().1)
}

fn functions(bare: &str) -> Vec<Function<'_>> {
    let found = bare.split(';').filter_map(|declaration| {
        let (before, rest) = declaration.split_once('(')?;
        let (answer, name) = parameter(before.trim_end().rsplit('\n').next()?);
        let parameters = rest.trim_end().strip_suffix(')')?;
        name.starts_with("tp_").then(|| Function {
            answer,
            name,
            parameters: parameters.split(',').map(parameter).collect(),
        })
    });
    found.collect()
}

/// `const struct tp_sync *sync`: the name is what the last letters are.
fn parameter(text: &str) -> (&str, &str) {
    let text = text.trim();
    let name = text
        .rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .map_or(0, |at| at + 1);
    let (kind, name) = text.split_at(name);
    (kind.trim(), name)
}

/// What C knows by name only.
fn kinds(bare: &str) -> Vec<&str> {
    let opaque = bare.split(';').filter_map(|declaration| {
        let words: Vec<&str> = declaration.split_whitespace().collect();
        match words.as_slice() {
            ["typedef", "struct", name, same] | [.., "typedef", "struct", name, same]
                if name == same =>
            {
                Some(*name)
            }
            _ => None,
        }
    });
    opaque.collect()
}
