use anyhow::bail;
use std::{collections::BTreeSet, net::TcpListener, sync::Mutex, sync::PoisonError};

/// Below the ports that a system gives to outgoing connections: between now and the moment when the port is
/// used, none of those can take it.
const PORTS: std::ops::Range<u32> = 17_000..32_000;
const ATTEMPTS: usize = 200;

/// A loopback port that nobody listens on, and that this process has not handed out before.
pub fn free_port() -> anyhow::Result<u16> {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    for _ in 0..ATTEMPTS {
        let [.., high, low] = *uuid::Uuid::new_v4().as_bytes();
        let drawn = PORTS.start + u32::from(u16::from_be_bytes([high, low])) % (PORTS.end - PORTS.start);
        let Ok(port) = u16::try_from(drawn) else { continue };
        let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
        if !given.contains(&port) && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            given.insert(port);
            return Ok(port);
        }
    }
    bail!("no free port was found between {} and {}", PORTS.start, PORTS.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_given_twice() {
        let ports: BTreeSet<u16> = (0..50).map(|_| free_port().unwrap()).collect();
        assert_eq!(ports.len(), 50);
    }
}
