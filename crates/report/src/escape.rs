//! Text from elsewhere (commands, file names, notes) made harmless for each format.

use std::fmt::Write as _;

/// For HTML and XML text and attributes; characters that XML 1.0 forbids become U+FFFD.
#[must_use]
pub fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(letter),
            '\u{0}'..='\u{1f}' | '\u{7f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ => out.push(letter),
        }
    }
    out
}

/// For one cell or line of GitHub's Markdown.
#[must_use]
pub fn markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\r' | '\t' => out.push(' '),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '|' | '`' | '*' | '_' | '[' | ']' | '\\' | '#' | '@' | '~' => {
                let _ = write!(out, "&#{};", u32::from(letter));
            }
            control if control.is_control() => out.push('\u{fffd}'),
            _ => out.push(letter),
        }
    }
    out
}

/// For one cell of a CSV file: quoted where needed (RFC 4180).
#[must_use]
pub fn csv(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// For one cell or line on a terminal: nothing moves the cursor, or turns the line's direction.
#[must_use]
pub fn terminal(text: &str) -> String {
    lines(text).replace(['\n', '\t'], " ")
}

/// For lines on a terminal.
#[must_use]
pub fn lines(text: &str) -> String {
    let harmless = |letter| match letter {
        '\n' | '\t' => letter,
        _ if letter.is_control() || turns(letter) => '\u{fffd}',
        _ => letter,
    };
    text.chars().map(harmless).collect()
}

/// Whether the letters after this one may be shown from the right to the left.
const fn turns(letter: char) -> bool {
    matches!(letter, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_its_cell() {
        assert_eq!(
            xml("<a href=\"x\">\u{1}&'"),
            "&lt;a href=&quot;x&quot;&gt;\u{fffd}&amp;&#39;"
        );
        assert_eq!(markdown("a|b\n<i>`"), "a&#124;b &lt;i&gt;&#96;");
        assert_eq!(csv("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(csv("plain"), "plain");
    }
}
