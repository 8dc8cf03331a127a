//! Where a thread was: what is kept of its stack, and the table that keeps each stack once.
//!
//! A frame-pointer chain from the kernel loses the caller of every function that was built without frame pointers,
//! which is exactly the caller of `pthread_mutex_lock`. So the recorder keeps the top of the user stack as well. Not
//! byte by byte: a word is kept only if it can matter to an unwinder, that is, if it points into executable code (a
//! return address) or into the stack itself (a saved frame pointer), the latter relative to the stack pointer. All
//! other words are dropped. So equal call paths give equal [`Stack`]s whatever the data, whichever the thread; a
//! recording holds each once; and no data of the program leaves it.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

/// A stack of the recording's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackId(pub u32);

/// Where a thread was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stack {
    /// Kernel part, innermost first; empty where the rights did not allow it.
    pub kernel: Vec<u64>,
    /// User part as the kernel walked it by frame pointers, innermost first: instruction pointer, then return
    /// addresses.
    pub user: Vec<u64>,
    /// Registers to unwind from; `None` if only the chain is known.
    pub registers: Option<Registers>,
    /// The top of the user stack: offset of a word from the stack pointer in units of 8 bytes (ascending), and the
    /// word.
    pub words: Vec<(u16, Word)>,
    /// How many words from the stack pointer on were looked at: a word below this and not in `words` was neither.
    pub depth: u16,
}

impl Stack {
    /// What it takes in a table, with its place in the index, about.
    pub fn bytes(&self) -> usize {
        let addresses = self.kernel.len() + self.user.len();
        size_of::<Stack>() + 16 + addresses * size_of::<u64>() + self.words.len() * size_of::<(u16, Word)>()
    }
}

/// User registers that an unwinder starts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Registers {
    /// Instruction pointer.
    pub ip: u64,
    /// Frame pointer: relative to the stack pointer if it points into the stack near it.
    pub fp: Word,
    /// Return address register (of machines that have one; 0 elsewhere).
    pub lr: u64,
}

/// A word that can matter to an unwinder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Word {
    /// An address in executable code, or any other value that is kept as it is.
    Code(u64),
    /// An address in the stack, in bytes from the stack pointer.
    Stack(i32),
}

impl Default for Word {
    fn default() -> Self {
        Word::Code(0)
    }
}

/// Every stack once.
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    table: Vec<Stack>,
    /// Places of the stacks in `table`, by their hash.
    numbers: HashTable<u32>,
    /// The number of the first: those below it are forgotten.
    first: u32,
    /// Bytes that the stacks take, about.
    bytes: usize,
}

impl Stacks {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of a stack, new or known.
    ///
    /// # Panics
    /// At 2^32 different stacks, which no memory holds.
    pub fn intern(&mut self, stack: &Stack) -> StackId {
        let hash = FxBuildHasher.hash_one(stack);
        let table = &mut self.table;
        if let Some(&number) = self.numbers.find(hash, |&number| table[number as usize] == *stack) {
            return StackId(self.first + number);
        }
        let number = u32::try_from(table.len()).expect("fewer than 2^32 stacks");
        table.push(stack.clone());
        self.bytes += stack.bytes();
        self.numbers.insert_unique(hash, number, |&number| FxBuildHasher.hash_one(&table[number as usize]));
        let id = self.first.checked_add(number).expect("fewer than 2^32 stacks");
        StackId(id)
    }

    /// Empties the table, and gives what was in it. Numbers go on: one that was given before stands for no stack from
    /// then on.
    pub fn forget(&mut self) -> Stacks {
        let first = self.first.saturating_add(u32::try_from(self.table.len()).unwrap_or(u32::MAX));
        std::mem::replace(self, Stacks { first, ..Stacks::default() })
    }

    /// Bytes of memory that they take, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A stack by its number.
    pub fn get(&self, id: StackId) -> Option<&Stack> {
        self.table.get(id.0.checked_sub(self.first)? as usize)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// All stacks with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (StackId, &Stack)> {
        (self.first..).map(StackId).zip(&self.table)
    }
}
