//! Sums by key, for keys that are mostly few and mostly the same: a list, and an index once the list is long.

use std::hash::Hash;

use rustc_hash::FxHashMap;

/// From which length on an index is worth its memory.
const INDEXED: usize = 16;

/// Values by key, in order of their first appearance as long as they are few.
#[derive(Clone, Debug)]
pub(super) struct Tally<K, V> {
    list: Vec<(K, V)>,
    index: FxHashMap<K, u32>,
}

impl<K, V> Default for Tally<K, V> {
    fn default() -> Self {
        Tally { list: Vec::new(), index: FxHashMap::default() }
    }
}

impl<K: Copy + Eq + Hash, V: Default> Tally<K, V> {
    /// The value of a key, new if there is none yet.
    pub(super) fn at(&mut self, key: K) -> &mut V {
        let index = self.position(key).unwrap_or_else(|| self.push(key));
        &mut self.list[index].1
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(K, V)> {
        self.list.iter()
    }

    fn position(&self, key: K) -> Option<usize> {
        if self.list.len() > INDEXED {
            return self.index.get(&key).map(|index| *index as usize);
        }
        self.list.iter().position(|(known, _)| *known == key)
    }

    fn push(&mut self, key: K) -> usize {
        self.list.push((key, V::default()));
        let len = self.list.len();
        if len == INDEXED + 1 {
            self.index = (0..).zip(&self.list).map(|(index, (key, _))| (*key, index)).collect();
        } else if len > INDEXED {
            self.index.insert(key, len as u32 - 1);
        }
        len - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_keys_and_many() {
        let mut tally: Tally<u32, u64> = Tally::default();
        for round in 0..3 {
            (0..100).for_each(|key| *tally.at(key) += u64::from(key) + round);
        }
        assert_eq!(tally.iter().count(), 100);
        assert!(tally.iter().all(|(key, sum)| *sum == 3 * u64::from(*key) + 3));
    }
}
