//! How a watch sees an object, for the question why the object is not reconciled. Entry point: [`Visibility`].

/// How a watch sees an object.
pub(in crate::manager) enum Visibility {
    /// It is cached in this version, and its events enqueue it.
    Admitted(String),
    /// It is cached, and the watch leaves it out for this reason.
    LeftOut(&'static str),
    /// The watch does not run, for this reason.
    NotRunning(String),
    /// The watch is starting.
    Starting,
    /// There is no such object.
    Absent,
}

impl Visibility {
    /// The lowest of several watches explains most.
    pub(in crate::manager) fn rank(&self) -> u8 {
        match self {
            Self::Admitted(_) => 0,
            Self::LeftOut(_) => 1,
            Self::NotRunning(_) => 2,
            Self::Starting => 3,
            Self::Absent => 4,
        }
    }

    /// A sentence for people.
    pub(in crate::manager) fn describe(&self, kind: &str) -> String {
        match self {
            Self::Admitted(version) => format!(
                "nothing is left to do: the object is cached at version {version}, and no event has come since its last run"
            ),
            Self::LeftOut(why) => format!("the watch of {kind} leaves the object out: {why}"),
            Self::NotRunning(problem) => format!("the watch of {kind} does not run: {problem}"),
            Self::Starting => format!("the watch of {kind} is being brought up"),
            Self::Absent => format!(
                "there is no such {kind} in the cluster, as far as this reconciler may see: check namespace and name"
            ),
        }
    }
}
