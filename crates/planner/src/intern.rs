//! Words as numbers, and a hasher that gives the same order of work in every run.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hash, Hasher};

pub(crate) type Sym = u32;
pub(crate) type Map<K, V> = HashMap<K, V, BuildHasherDefault<Quick>>;
pub(crate) type Set<K> = HashSet<K, BuildHasherDefault<Quick>>;

/// Multiply and rotate, a word at a time: keys come from the cluster itself, not from an enemy, and a collision costs
/// a comparison.
#[derive(Default)]
pub(crate) struct Quick(u64);

impl Quick {
    fn add(&mut self, word: u64) {
        // The addition makes a difference between nothing and zeros.
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95).wrapping_add(0x9e37_79b9);
    }
}

impl Hasher for Quick {
    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.add(u64::from_le_bytes(word.try_into().unwrap_or_default()));
        }
        let mut last = [0u8; 8];
        let rest = words.remainder();
        last[..rest.len()].copy_from_slice(rest);
        self.add(u64::from_le_bytes(last) ^ (rest.len() as u64) << 56);
    }

    fn write_u8(&mut self, n: u8) {
        self.add(u64::from(n));
    }

    fn write_u32(&mut self, n: u32) {
        self.add(u64::from(n));
    }

    fn write_u64(&mut self, n: u64) {
        self.add(n);
    }

    fn write_i64(&mut self, n: i64) {
        self.add(n.cast_unsigned());
    }

    fn write_usize(&mut self, n: usize) {
        self.add(n as u64);
    }

    fn finish(&self) -> u64 {
        // The table takes the low bits, which a multiplication mixes least.
        self.0 ^ (self.0 >> 32)
    }
}

#[derive(Default)]
pub(crate) struct Symbols {
    numbers: Map<Box<str>, Sym>,
    names: Vec<Box<str>>,
}

impl Symbols {
    pub fn of(&mut self, word: &str) -> Sym {
        if let Some(&number) = self.numbers.get(word) {
            return number;
        }
        let number = u32::try_from(self.names.len()).unwrap_or(Sym::MAX);
        self.names.push(word.into());
        self.numbers.insert(word.into(), number);
        number
    }

    pub fn known(&self, word: &str) -> Option<Sym> {
        self.numbers.get(word).copied()
    }

    pub fn name(&self, number: Sym) -> &str {
        self.names.get(number as usize).map_or("", AsRef::as_ref)
    }
}

/// Equal things once, numbered in the order they came.
pub(crate) struct Pool<T> {
    numbers: Map<T, u32>,
    pub items: Vec<T>,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self { numbers: Map::default(), items: Vec::new() }
    }
}

impl<T: Clone + Eq + Hash> Pool<T> {
    pub fn of(&mut self, item: T) -> u32 {
        if let Some(&number) = self.numbers.get(&item) {
            return number;
        }
        let number = u32::try_from(self.items.len()).unwrap_or(u32::MAX);
        self.items.push(item.clone());
        self.numbers.insert(item, number);
        number
    }
}
