//! Breaks in long work for one caller, so that other tasks make progress. Entry point: [`Breaks`].

use futures::{Stream, StreamExt};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

/// Longest time without a break: a few times what a break costs, and little beside a call to an API server.
const LONG: Duration = Duration::from_micros(200);

/// When the last break was. Work no longer than some ten microseconds between two checks.
#[derive(Debug)]
pub struct Breaks {
    last: Instant,
}

impl Breaks {
    /// The work begins now.
    #[must_use]
    pub fn begin() -> Self {
        Self {
            last: Instant::now(),
        }
    }

    /// Takes a break if the last one is long ago: the task is woken at once, but other tasks may run first.
    pub async fn check(&mut self) {
        if self.last.elapsed() >= LONG {
            take().await;
            self.last = Instant::now();
        }
    }
}

/// Is ready when it is polled for the second time. Unlike tokio's `yield_now` it wakes within the poll, so that the caller of `poll` can
/// tell a break from a wait.
async fn take() {
    let mut taken = false;
    poll_fn(|context| {
        if std::mem::replace(&mut taken, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// All elements of a stream, with breaks: a stream whose elements are all there would yield them within one poll.
pub async fn collected<S: Stream>(stream: S) -> Vec<S::Item> {
    let mut stream = pin!(stream);
    let mut items = Vec::with_capacity(stream.size_hint().0);
    let mut breaks = Breaks::begin();
    while let Some(item) = stream.next().await {
        items.push(item);
        breaks.check().await;
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
    async fn a_break_wakes_who_polls() {
        take().await;
    }
}
