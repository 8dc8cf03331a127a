//! What a Java program calls its threads: the field `name` of the object that stands for one.

use super::lines::Packed;
use super::structs::Fields;
use super::{LONGEST_TEXT, Machine, pointer, shown};

/// Fields of a class; longer lists were damaged.
const MOST_FIELDS: u16 = 256;
/// Numbers that the machine keeps of a field: which, and where it is.
const FIELD_SHORTS: usize = 6;
/// An array's length and its first byte, with addresses of classes in four bytes and in eight.
const ARRAY_NARROW: (u64, u64) = (12, 16);
const ARRAY_WIDE: (u64, u64) = (16, 24);

impl Machine {
    pub(super) fn thread_name(&mut self, thread: u64) -> Option<String> {
        let handle = self.memory.pointer(thread + self.structs.thread_object)?;
        // 11 has no handle in between.
        let object = self.memory.pointer(handle).and_then(|object| Some((object, self.class_of(object)?)));
        let (object, (mut class, narrow_classes)) = object.or_else(|| Some((handle, self.class_of(handle)?)))?;
        // A thread may be of a class of the program's own.
        for _ in 0..64 {
            if self.class_name(class).as_deref() == Some("java.lang.Thread") {
                break;
            }
            class = self.memory.pointer(class + self.structs.class_super)?;
        }
        let at = self.field(class, "name")?;
        let string = |address: Option<u64>, this: &mut Machine| {
            let address = address?;
            let (class, _) = this.class_of(address)?;
            (this.class_name(class)? == "java.lang.String").then_some((address, class))
        };
        // Objects' addresses take four bytes or eight.
        let narrow = self.narrow(object + at);
        let (string, class, is_narrow) = match string(narrow, self) {
            Some((string, class)) => (string, class, true),
            None => {
                let wide = self.memory.pointer(object + at);
                let (string, class) = string(wide, self)?;
                (string, class, false)
            }
        };
        let value_at = string.checked_add(self.field(class, "value")?)?;
        let coder_at = string.checked_add(self.field(class, "coder")?)?;
        let value = if is_narrow { self.narrow(value_at)? } else { self.memory.pointer(value_at)? };
        let is_latin = self.memory.bytes(coder_at, 1)?[0] == 0;
        let (length_at, bytes_at) = if narrow_classes { ARRAY_NARROW } else { ARRAY_WIDE };
        let len = self.memory.number(value + length_at)? as usize;
        let bytes = self.memory.bytes(value + bytes_at, len.min(LONGEST_TEXT))?;
        let name = if is_latin {
            shown(bytes.iter().map(|byte| char::from(*byte)))
        } else {
            let units = bytes.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
            shown(char::decode_utf16(units).map(|found| found.unwrap_or(char::REPLACEMENT_CHARACTER)))
        };
        (!name.is_empty()).then_some(name)
    }

    /// An object's class, and whether its address takes four bytes.
    fn class_of(&mut self, object: u64) -> Option<(u64, bool)> {
        let structs = self.structs;
        let word = self.memory.word(object + structs.object_class)?;
        let shift = self.memory.number(structs.class_shift)?;
        let base = self.memory.word(structs.class_base)?;
        let narrow = base.checked_add((word & u64::from(u32::MAX)).checked_shl(shift)?).and_then(pointer);
        let is_class = |class: &u64, this: &mut Machine| this.class_name(*class).is_some();
        match narrow.filter(|class| base != 0 && is_class(class, self)) {
            Some(class) => Some((class, true)),
            None => pointer(word).filter(|class| is_class(class, self)).map(|class| (class, false)),
        }
    }

    /// The object whose address is kept here in four bytes.
    fn narrow(&mut self, address: u64) -> Option<u64> {
        let structs = self.structs;
        let number = self.memory.number(address).filter(|number| *number != 0)?;
        let shift = self.memory.number(structs.oop_shift)?;
        let base = self.memory.word(structs.oop_base)?;
        base.checked_add(u64::from(number).checked_shl(shift)?).and_then(pointer)
    }

    /// Where the objects of a class have a field that it declares.
    fn field(&mut self, class: u64, name: &str) -> Option<u64> {
        let structs = self.structs;
        let pool = self.memory.pointer(class + structs.class_pool)?;
        let (list, count, data) = match structs.class_fields {
            Fields::Shorts { list, count, data } => (list, count, data),
            Fields::Packed { list, data } => {
                let list = self.memory.pointer(class + list)?;
                return self.packed_field(list, data, pool, name);
            }
        };
        let count = self.short(class + count)?.min(MOST_FIELDS);
        let list = self.memory.pointer(class + list)? + data;
        let bytes = self.memory.bytes(list, usize::from(count) * FIELD_SHORTS * 2)?;
        bytes.chunks_exact(FIELD_SHORTS * 2).find_map(|field| {
            let short = |index: usize| u16::from_le_bytes([field[2 * index], field[2 * index + 1]]);
            let offset = (u64::from(short(5)) << 16 | u64::from(short(4))) >> 2;
            // Names of the machine's own classes are numbers of a table that is not read.
            (self.pool_text(pool, short(1)).as_deref() == Some(name)).then_some(offset)
        })
    }
    fn packed_field(&mut self, list: u64, data: u64, pool: u64, name: &str) -> Option<u64> {
        /// Bytes of a class's fields that are believed.
        const MOST_BYTES: u32 = 1 << 14;
        let length = self.memory.number(list)?.min(MOST_BYTES);
        let bytes = self.memory.bytes(list + data, length as usize)?;
        let fields = packed_fields(&mut Packed { bytes: &bytes, least: self.structs.packed_least })?;
        let is_it = |index: u32| self.pool_text(pool, index.try_into().ok()?).filter(|text| text == name);
        let mut is_it = is_it;
        fields.into_iter().find_map(|(index, offset)| is_it(index).map(|_| offset.into()))
    }
}

/// The fields that a class declares: where in its pool each has its name, and where objects have it. Before them stand
/// their number and that of the machine's own; of each there are name, type, place, two sets of flags, and what the
/// second of these says.
fn packed_fields(packed: &mut Packed) -> Option<Vec<(u32, u32)>> {
    /// Flags that one more number follows: a first value, a generic type, a group of fields that share no cache line.
    const MORE: [u32; 3] = [1, 1 << 2, 1 << 4];
    let count = packed.number()?;
    packed.number()?;
    let mut fields = Vec::new();
    for _ in 0..count.min(MOST_FIELDS.into()) {
        let (name, _, offset, _, flags) =
            (packed.number()?, packed.number()?, packed.number()?, packed.number()?, packed.number()?);
        for _ in MORE.iter().filter(|flag| flags & **flag != 0) {
            packed.number()?;
        }
        fields.push((name, offset));
    }
    Some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_as_long_as_their_flags_say() {
        // Two of the program's and one of the machine's own; the first has a first value and a generic type.
        let bytes = [3, 2, 8, 9, 13, 3, 6, 40, 41, 10, 11, 17, 3, 1, 60, 61, 21, 1, 3];
        let fields = |bytes: &[u8]| packed_fields(&mut Packed { bytes, least: 1 });
        assert_eq!(fields(&bytes), Some(vec![(7, 12), (9, 16)]));
        assert_eq!(fields(&bytes[..7]), None, "cut off");
        assert_eq!(fields(&[]), None);
    }
}
