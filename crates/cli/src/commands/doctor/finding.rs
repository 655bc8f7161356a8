//! One line of `towpath doctor`.

use serde::Serialize;

/// How a thing stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum State {
    /// There, and good for its purpose.
    Good,
    /// There, and something could be better: see the advice.
    Advice,
    /// Not there, or it could not be found out: the text says why.
    Unavailable,
}

/// What was looked at, how it stands, and what to do about it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Finding {
    /// The host path it matters for, or "machine".
    pub(super) path: &'static str,
    /// What was looked at.
    pub(super) what: String,
    /// How it stands.
    pub(super) state: State,
    /// What was found.
    pub(super) text: String,
    /// What to do, where there is something to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) advice: Option<String>,
}

impl Finding {
    /// A thing that is as it should be.
    pub(super) fn good(
        path: &'static str,
        what: impl Into<String>,
        text: impl Into<String>,
    ) -> Self {
        Self {
            path,
            what: what.into(),
            state: State::Good,
            text: text.into(),
            advice: None,
        }
    }

    /// A thing that is not there, with the reason.
    pub(super) fn unavailable(
        path: &'static str,
        what: impl Into<String>,
        text: impl Into<String>,
    ) -> Self {
        Self {
            path,
            what: what.into(),
            state: State::Unavailable,
            text: text.into(),
            advice: None,
        }
    }

    /// The same, with what to do about it.
    #[must_use]
    pub(super) fn advise(mut self, advice: impl Into<String>) -> Self {
        if self.state == State::Good {
            self.state = State::Advice;
        }
        self.advice = Some(advice.into());
        self
    }
}
