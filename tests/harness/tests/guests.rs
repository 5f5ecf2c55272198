//! Guests come out of their workspace as components.

use windlass_harness::guests::guest;

/// The first bytes of every component: `\0asm`, then the component model's version and layer.
const COMPONENT: [u8; 8] = [0, b'a', b's', b'm', 0x0d, 0, 1, 0];

#[test]
fn a_built_guest_is_a_component_of_tens_of_kilobytes() {
    let bytes = std::fs::read(guest("hello")).unwrap();
    assert!(bytes.starts_with(&COMPONENT));
    assert!(bytes.len() < 200 * 1024, "{} bytes", bytes.len());
}

#[test]
#[should_panic(expected = "there is no guest \"nobody\"")]
fn an_unknown_guest_is_named() {
    guest("nobody");
}
