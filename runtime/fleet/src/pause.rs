//! Pauses in long work for one caller, so that other tasks make progress. Entry point: [`Pauses`].

use futures::{Stream, StreamExt};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

/// Longest time without a pause: a few times what a pause costs, and little beside a call to an API server.
const LONG: Duration = Duration::from_micros(200);

/// When the last pause was. Work no longer than some ten microseconds between two checks.
#[derive(Debug)]
pub struct Pauses {
    last: Instant,
}

impl Pauses {
    /// The work begins now.
    #[must_use]
    pub fn begin() -> Self {
        Self {
            last: Instant::now(),
        }
    }

    /// Pauses if the last pause is long ago: the task is woken at once, but other tasks may run first.
    pub async fn check(&mut self) {
        if self.last.elapsed() >= LONG {
            pause().await;
            self.last = Instant::now();
        }
    }
}

/// Is ready when it is polled for the second time. Unlike tokio's `yield_now` it wakes within the poll, so that the caller of `poll` can
/// tell a pause from a wait.
async fn pause() {
    let mut paused = false;
    poll_fn(|context| {
        if std::mem::replace(&mut paused, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// All elements of a stream, with pauses: a stream whose elements are all there would yield them within one poll.
pub async fn collected<S: Stream>(stream: S) -> Vec<S::Item> {
    let mut stream = pin!(stream);
    let mut items = Vec::with_capacity(stream.size_hint().0);
    let mut pauses = Pauses::begin();
    while let Some(item) = stream.next().await {
        items.push(item);
        pauses.check().await;
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use futures::task::noop_waker_ref;
    use std::task::Context;

    /// Elements that take some time each.
    fn slow(count: usize) -> impl Stream<Item = usize> {
        futures::stream::iter(0..count).inspect(|_| {
            let began = Instant::now();
            while began.elapsed() < LONG / 4 {
                std::hint::spin_loop();
            }
        })
    }

    #[test]
    fn a_long_stream_is_collected_in_several_polls() {
        let mut collected = Box::pin(collected(slow(100)));
        let mut polls = 1;
        let items = loop {
            let mut context = Context::from_waker(noop_waker_ref());
            match collected.poll_unpin(&mut context) {
                Poll::Ready(items) => break items,
                Poll::Pending => polls += 1,
            }
        };
        assert!(items.into_iter().eq(0..100));
        assert!((10..=101).contains(&polls), "{polls} polls");
    }

    #[tokio::test]
    async fn a_pause_wakes_who_polls() {
        pause().await;
    }
}
