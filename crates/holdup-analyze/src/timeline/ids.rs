//! Which thread, lock, group, wait site, block: a type for the index in each of the engine's tables, so that none is
//! taken for another.

use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

use holdup_trace::StackId;

use crate::facts::LockNumber;

/// An index in one table. An `Option` of it is no larger.
pub(super) trait Id: Copy {
    fn of(index: usize) -> Self;
    fn index(self) -> usize;
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub(super) struct $name(NonZeroU32);

        impl Id for $name {
            fn of(index: usize) -> $name {
                $name(NonZeroU32::MIN.saturating_add(index as u32))
            }

            fn index(self) -> usize {
                self.0.get() as usize - 1
            }
        }
    )*};
}

ids! {
    /// A thread; a number that is used again is another one.
    ThreadId
    /// An address that threads wait on.
    LockId
    /// Waits that are summed up together: of an address and operation, or of a place.
    GroupId
    /// A way to wait at an address from a place.
    WaitSiteId
    /// What threads block in where no call by name tells.
    BlockId
    /// What a look from outside found a thread blocked in.
    FoundId
    /// What an interpreter was found executing.
    CodeId
    /// A lock as the facts list them.
    ListedId
}

ids! {
    /// A stack of the recording, or one of those that [`interpreted`](super::interpreted) numbers behind them.
    StackKey
}

impl From<StackId> for StackKey {
    fn from(stack: StackId) -> StackKey {
        StackKey::of(stack.0 as usize)
    }
}

impl From<StackKey> for StackId {
    fn from(stack: StackKey) -> StackId {
        StackId(stack.index() as u32)
    }
}

impl From<ListedId> for LockNumber {
    fn from(lock: ListedId) -> LockNumber {
        LockNumber(lock.index() as u32)
    }
}

/// The order in which what is not known comes last.
pub(super) fn unknown_last<T: Ord>(id: Option<T>) -> (bool, Option<T>) {
    (id.is_none(), id)
}

/// All things of one kind, by their ids.
#[derive(Clone, Debug)]
pub(super) struct Table<I, T> {
    list: Vec<T>,
    id: PhantomData<I>,
}

impl<I, T> Default for Table<I, T> {
    fn default() -> Self {
        Table { list: Vec::new(), id: PhantomData }
    }
}

impl<I: Id, T> Table<I, T> {
    pub(super) fn push(&mut self, item: T) -> I {
        self.list.push(item);
        I::of(self.list.len() - 1)
    }

    /// The id that the next has.
    pub(super) fn next(&self) -> I {
        I::of(self.list.len())
    }

    /// The ids of all that there are now.
    pub(super) fn ids(&self) -> impl DoubleEndedIterator<Item = I> + use<I, T> {
        (0..self.list.len()).map(I::of)
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.list.iter()
    }

    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.list.iter_mut()
    }

    /// Each with its id.
    pub(super) fn each(&self) -> impl DoubleEndedIterator<Item = (I, &T)> {
        self.list.iter().enumerate().map(|(index, item)| (I::of(index), item))
    }

    /// Each with its id.
    pub(super) fn each_mut(&mut self) -> impl Iterator<Item = (I, &mut T)> {
        self.list.iter_mut().enumerate().map(|(index, item)| (I::of(index), item))
    }

    /// A table with the same ids, of something that each of these has.
    pub(super) fn map<U>(&self, item: impl FnMut(&T) -> U) -> Table<I, U> {
        self.list.iter().map(item).collect()
    }
}

impl<I: Id, T> Index<I> for Table<I, T> {
    type Output = T;

    fn index(&self, id: I) -> &T {
        &self.list[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for Table<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.list[id.index()]
    }
}

impl<I, T> FromIterator<T> for Table<I, T> {
    fn from_iter<A: IntoIterator<Item = T>>(items: A) -> Self {
        Table { list: items.into_iter().collect(), id: PhantomData }
    }
}

impl<'a, I, T> IntoIterator for &'a Table<I, T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}

impl<'a, I, T> IntoIterator for &'a mut Table<I, T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter_mut()
    }
}
