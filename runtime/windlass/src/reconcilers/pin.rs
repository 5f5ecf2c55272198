//! A reconciler that serves another revision than its file holds, because somebody asked for it. Entry point: [`Pin`].

use crate::status::view::RollbackRequest;
use windlass_sandbox::Digest;

/// A roll back that is in effect. It is over once the guest's file holds anything else than when it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pin {
    /// What serves.
    pub(super) to: Digest,
    /// What the file held; none: it could not be read.
    pub(super) file: Option<Digest>,
}

impl Pin {
    /// Whether it is still in effect, now that the file holds this; a file that cannot be read holds nothing else.
    pub(super) fn holds(self, file: Option<Digest>) -> bool {
        file.is_none() || file == self.file
    }
}

/// What a reconciler has to choose from.
pub(super) struct Choice {
    /// What serves; none when nothing does.
    pub(super) running: Option<Digest>,
    /// What served before.
    pub(super) previous: Option<Digest>,
    /// What the guest's file holds.
    pub(super) file: Option<Digest>,
    /// The roll back that is in effect.
    pub(super) pin: Option<Pin>,
}

impl Choice {
    /// The pin that a request asks for; none: the file decides again.
    ///
    /// # Errors
    /// Why there is nothing to do, and what can be asked for instead. Without the reconciler's name.
    pub(super) fn take(&self, request: &RollbackRequest) -> Result<Option<Pin>, String> {
        if request.undo {
            return match self.pin {
                Some(_) => Ok(None),
                None => Err("is not rolled back: there is nothing to undo".to_owned()),
            };
        }
        let to = match &request.to {
            Some(wanted) => self.find(wanted)?,
            None => self.before()?,
        };
        if Some(to) == self.running {
            return Err(format!("serves {} already", to.short()));
        }
        let file = self.file;
        Ok((file != Some(to)).then_some(Pin { to, file }))
    }

    /// The revision before, if that was not gone back to already: back and forth by the same command would surprise.
    fn before(&self) -> Result<Digest, String> {
        if let Some(pin) = self.pin {
            return Err(format!(
                "is rolled back to {} already: --undo has it serve what its file holds",
                pin.to.short()
            ));
        }
        self.previous.ok_or_else(|| {
            "has no revision before the one that serves: this process has loaded no other"
                .to_owned()
        })
    }

    fn find(&self, wanted: &str) -> Result<Digest, String> {
        let wanted = wanted.strip_prefix("sha256:").unwrap_or(wanted);
        let kept = [self.running, self.previous].into_iter().flatten();
        let named: Vec<Digest> = kept
            .clone()
            .filter(|digest| !wanted.is_empty() && digest.to_string().starts_with(wanted))
            .collect();
        match named[..] {
            [digest] => Ok(digest),
            _ => {
                let kept: Vec<String> = kept.map(|digest| digest.short()).collect();
                let kept = match kept.is_empty() {
                    true => "none".to_owned(),
                    false => kept.join(" and "),
                };
                Err(format!(
                    "keeps no revision {wanted:?}, or more than one: it keeps {kept}"
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(text: &str) -> Digest {
        Digest::of(text.as_bytes())
    }

    /// A serves no more, B does.
    fn choice() -> Choice {
        Choice {
            running: Some(digest("b")),
            previous: Some(digest("a")),
            file: Some(digest("b")),
            pin: None,
        }
    }

    fn request(to: Option<&str>, undo: bool) -> RollbackRequest {
        RollbackRequest {
            reconciler: "x".to_owned(),
            to: to.map(str::to_owned),
            undo,
        }
    }

    #[test]
    fn it_goes_back_to_the_revision_before_until_the_file_changes() {
        let pin = choice().take(&request(None, false)).unwrap().unwrap();
        assert_eq!((pin.to, pin.file), (digest("a"), Some(digest("b"))));
    }

    #[test]
    fn a_revision_is_named_by_the_beginning_of_its_digest() {
        let a = digest("a").to_string();
        for name in [a.as_str(), &a[..12], &format!("sha256:{a}")] {
            let pin = choice().take(&request(Some(name), false)).unwrap();
            assert_eq!(pin.map(|pin| pin.to), Some(digest("a")), "{name}");
        }
        for name in ["", "zz", &digest("c").to_string()] {
            let error = choice().take(&request(Some(name), false)).unwrap_err();
            assert!(error.contains(&digest("a").short()), "{error}");
        }
        let b = digest("b").to_string();
        let error = choice().take(&request(Some(&b), false)).unwrap_err();
        assert!(error.ends_with("already"), "{error}");
    }

    #[test]
    fn what_is_rolled_back_goes_forward_by_undoing_alone() {
        let back = Choice {
            running: Some(digest("a")),
            previous: Some(digest("b")),
            file: Some(digest("b")),
            pin: Some(Pin {
                to: digest("a"),
                file: Some(digest("b")),
            }),
        };
        assert!(
            back.take(&request(None, false))
                .unwrap_err()
                .contains("--undo")
        );
        assert_eq!(back.take(&request(None, true)), Ok(None));
        // Named, what the file holds is no roll back.
        let b = digest("b").to_string();
        assert_eq!(back.take(&request(Some(&b), false)), Ok(None));
        assert!(choice().take(&request(None, true)).is_err());
    }

    #[test]
    fn without_a_revision_before_there_is_nothing_to_go_back_to() {
        let first = Choice {
            previous: None,
            ..choice()
        };
        assert!(first.take(&request(None, false)).is_err());
    }

    #[test]
    fn a_file_that_is_gone_is_no_hindrance() {
        let gone = Choice {
            file: None,
            ..choice()
        };
        let pin = gone.take(&request(None, false)).unwrap();
        assert_eq!(
            pin,
            Some(Pin {
                to: digest("a"),
                file: None
            })
        );
    }
}
