//! Memory that is about to be touched, loaded ahead of that. Entry point: [`Queue::warm_add`].
//!
//! With a million keys nearly all that a call touches of them lies in no cache, and waiting for memory is most of what a call costs. A
//! processor waits for many loads no longer than for one, provided that it comes to all of them before it has to know what one of
//! them brings, and before it counts a reference, which waits for all that went before. So what is known to be needed is asked
//! for at once, and while an addition waits for its place in the table the turn that follows is prepared as well.

use super::Queue;

impl Queue {
    /// Asks for what adding a key with this hash will touch, and for what the next two turns will: of the first what its key leads
    /// to, of the second what leads to its key, which is a chain of loads in itself.
    pub(super) fn warm_add(&self, hash: u32) {
        self.keys.warm_lookup(hash);
        let next = self.classes.next();
        if let Some(key) = next.and_then(|lane| self.keys.first_ready(lane)) {
            self.warm_get(key);
        }
        if let Some(lane) = self.classes.next_but_one() {
            self.keys.warm_first(lane);
        }
    }

    /// Asks for what handing a key out and taking it back will touch.
    pub(super) fn warm_get(&self, key: u32) {
        self.keys.warm_turn(key);
        self.storms.warm(self.keys.entry(key).hash);
    }
}
