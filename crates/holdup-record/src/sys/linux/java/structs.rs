//! Where HotSpot keeps things: by the table that it carries for debuggers (`gHotSpotVMStructs`), so that no version of
//! it need be known.

use rustc_hash::FxHashMap;

use super::super::elf::Elf;
use super::super::memory::{Memory, pointer_at, u32_at, u64_at};

/// Entries that are believed; 17 has some 2,000.
const MOST_ENTRIES: u64 = 10_000;
/// Longer names of types and fields are none that is asked for.
const LONGEST: usize = 64;

/// How the machine keeps its threads.
#[derive(Clone, Copy, Debug)]
pub enum List {
    /// In an array: where its length is, and where its elements are.
    Array { length: u64, threads: u64 },
    /// Each leads to the next (11).
    Chain { next: u64 },
}

/// How a class keeps its fields.
#[derive(Clone, Copy, Debug)]
pub enum Fields {
    /// Six numbers of two bytes for each.
    Shorts { list: u64, count: u64, data: u64 },
    /// As packed numbers (21).
    Packed { list: u64, data: u64 },
}

/// Offsets of fields, addresses of static ones, and sizes of types.
#[derive(Clone, Copy, Debug)]
pub struct Structs {
    pub threads: u64,
    pub list: List,
    pub thread_object: u64,
    pub thread_anchor: u64,
    pub thread_os: u64,
    pub os_number: u64,
    pub last_sp: u64,
    pub last_pc: u64,
    pub last_fp: u64,
    pub heaps: u64,
    pub array_length: u64,
    pub array_data: u64,
    pub heap_memory: u64,
    pub heap_segments: u64,
    pub heap_shift: u64,
    pub space_low: u64,
    pub space_high: u64,
    pub block_bytes: u64,
    pub blob_name: u64,
    pub blob_code: u64,
    pub blob_code_end: u64,
    pub blob_frame: u64,
    pub compiled_method: u64,
    pub compiled_scopes: u64,
    pub metadata: u64,
    pub pcs: u64,
    pub pcs_end: u64,
    pub method_const: u64,
    pub const_bytes: u64,
    pub const_size: u64,
    pub const_pool: u64,
    pub const_flags: u64,
    pub const_code: u64,
    pub const_name: u64,
    pub pool_bytes: u64,
    pub pool_class: u64,
    /// Of the class where not of the pool.
    pub pool_source: Option<u64>,
    pub class_source: Option<u64>,
    pub class_name: u64,
    pub class_super: u64,
    pub class_fields: Fields,
    pub class_pool: u64,
    /// What packed numbers subtract from each of their bytes.
    pub packed_least: u8,
    pub symbol_length: u64,
    pub symbol_text: u64,
    pub wrapper_anchor: u64,
    pub call_returns: u64,
    pub oop_base: u64,
    pub oop_shift: u64,
    pub class_base: u64,
    pub class_shift: u64,
    pub object_class: u64,
}

impl Structs {
    /// What the tables of this file say; `None` if they lack something, as those of versions that are laid out
    /// otherwise do.
    pub fn read(file: &Elf, memory: &mut Memory) -> Option<Structs> {
        let mut fields = fields(file, memory)?;
        fields.extend(sizes(file, memory)?);
        let get = |name: &str| fields.get(name).copied();
        // What follows `or_else` is how other versions call it.
        let list =
            || Some(List::Array { length: get("ThreadsList::_length")?, threads: get("ThreadsList::_threads")? });
        let shorts = || {
            let (list, count) = (get("InstanceKlass::_fields")?, get("InstanceKlass::_java_fields_count")?);
            Some(Fields::Shorts { list, count, data: get("Array<u2>::_data")? })
        };
        let stream = get("InstanceKlass::_fieldinfo_stream");
        let packed = || Some(Fields::Packed { list: stream?, data: get("Array<u1>::_data")? });
        Some(Structs {
            threads: get("ThreadsSMRSupport::_java_thread_list").or_else(|| get("Threads::_thread_list"))?,
            list: list().or_else(|| Some(List::Chain { next: get("JavaThread::_next")? }))?,
            thread_object: get("JavaThread::_threadObj")?,
            thread_anchor: get("JavaThread::_anchor")?,
            thread_os: get("JavaThread::_osthread").or_else(|| get("Thread::_osthread"))?,
            os_number: get("OSThread::_thread_id")?,
            last_sp: get("JavaFrameAnchor::_last_Java_sp")?,
            last_pc: get("JavaFrameAnchor::_last_Java_pc")?,
            last_fp: get("JavaFrameAnchor::_last_Java_fp")?,
            heaps: get("CodeCache::_heaps")?,
            array_length: get("GrowableArrayBase::_len").or_else(|| get("GenericGrowableArray::_len"))?,
            array_data: get("GrowableArray<int>::_data")?,
            heap_memory: get("CodeHeap::_memory")?,
            heap_segments: get("CodeHeap::_segmap")?,
            heap_shift: get("CodeHeap::_log2_segment_size")?,
            space_low: get("VirtualSpace::_low")?,
            space_high: get("VirtualSpace::_high")?,
            block_bytes: get("sizeof HeapBlock")?,
            blob_name: get("CodeBlob::_name")?,
            blob_code: get("CodeBlob::_code_begin")?,
            blob_code_end: get("CodeBlob::_code_end")?,
            blob_frame: get("CodeBlob::_frame_size")?,
            compiled_method: get("CompiledMethod::_method")?,
            compiled_scopes: get("CompiledMethod::_scopes_data_begin")?,
            metadata: get("nmethod::_metadata_offset")?,
            pcs: get("nmethod::_scopes_pcs_offset")?,
            pcs_end: get("nmethod::_dependencies_offset")?,
            method_const: get("Method::_constMethod")?,
            const_bytes: get("sizeof ConstMethod")?,
            const_size: get("ConstMethod::_constMethod_size")?,
            const_pool: get("ConstMethod::_constants")?,
            const_flags: get("ConstMethod::_flags").or_else(|| get("ConstMethod::_flags._flags"))?,
            const_code: get("ConstMethod::_code_size")?,
            const_name: get("ConstMethod::_name_index")?,
            pool_bytes: get("sizeof ConstantPool")?,
            pool_class: get("ConstantPool::_pool_holder")?,
            pool_source: get("ConstantPool::_source_file_name_index"),
            class_source: get("InstanceKlass::_source_file_name_index"),
            class_name: get("Klass::_name")?,
            class_super: get("Klass::_super")?,
            class_fields: shorts().or_else(packed)?,
            class_pool: get("InstanceKlass::_constants")?,
            // Both came about the same time: since then no byte of a packed number is 0.
            packed_least: stream.is_some().into(),
            symbol_length: get("Symbol::_length")?,
            symbol_text: get("Symbol::_body")?,
            wrapper_anchor: get("JavaCallWrapper::_anchor")?,
            call_returns: get("StubRoutines::_call_stub_return_address")?,
            oop_base: get("CompressedOops::_narrow_oop._base").or_else(|| get("Universe::_narrow_oop._base"))?,
            oop_shift: get("CompressedOops::_narrow_oop._shift").or_else(|| get("Universe::_narrow_oop._shift"))?,
            class_base: get("CompressedKlassPointers::_narrow_klass._base")
                .or_else(|| get("Universe::_narrow_klass._base"))?,
            class_shift: get("CompressedKlassPointers::_narrow_klass._shift")
                .or_else(|| get("Universe::_narrow_klass._shift"))?,
            object_class: get("oopDesc::_metadata._klass")?,
        })
    }
}

fn fields(file: &Elf, memory: &mut Memory) -> Option<FxHashMap<String, u64>> {
    let table = pointed(file, "gHotSpotVMStructs", memory)?;
    let stride = pointed(file, "gHotSpotVMStructEntryArrayStride", memory).filter(|stride| *stride <= 256)?;
    let at = |name, memory: &mut Memory| pointed(file, name, memory).filter(|at| *at + 8 <= stride);
    let kind_at = at("gHotSpotVMStructEntryTypeNameOffset", memory)?;
    let name_at = at("gHotSpotVMStructEntryFieldNameOffset", memory)?;
    let static_at = at("gHotSpotVMStructEntryIsStaticOffset", memory)?;
    let offset_at = at("gHotSpotVMStructEntryOffsetOffset", memory)?;
    let address_at = at("gHotSpotVMStructEntryAddressOffset", memory)?;
    let mut found = FxHashMap::default();
    for index in 0..MOST_ENTRIES {
        let entry = memory.bytes(table.checked_add(index * stride)?, stride as usize)?;
        let Some(kind) = pointer_at(&entry, kind_at as usize) else { break };
        let Some(name) = pointer_at(&entry, name_at as usize) else { break };
        let is_static = u32_at(&entry, static_at as usize)? != 0;
        let place = u64_at(&entry, if is_static { address_at } else { offset_at } as usize)?;
        if let (Some(kind), Some(name)) = (text(kind, memory), text(name, memory))
            && (is_static || place < 1 << 20)
        {
            found.insert(format!("{kind}::{name}"), place);
        }
    }
    Some(found)
}

fn sizes(file: &Elf, memory: &mut Memory) -> Option<FxHashMap<String, u64>> {
    let table = pointed(file, "gHotSpotVMTypes", memory)?;
    let stride = pointed(file, "gHotSpotVMTypeEntryArrayStride", memory).filter(|stride| *stride <= 256)?;
    let at = |name, memory: &mut Memory| pointed(file, name, memory).filter(|at| *at + 8 <= stride);
    let name_at = at("gHotSpotVMTypeEntryTypeNameOffset", memory)?;
    let size_at = at("gHotSpotVMTypeEntrySizeOffset", memory)?;
    let mut found = FxHashMap::default();
    for index in 0..MOST_ENTRIES {
        let entry = memory.bytes(table.checked_add(index * stride)?, stride as usize)?;
        let Some(name) = pointer_at(&entry, name_at as usize) else { break };
        let size = u64_at(&entry, size_at as usize).filter(|size| *size < 1 << 20);
        if let (Some(name), Some(size)) = (text(name, memory), size) {
            found.insert(format!("sizeof {name}"), size);
        }
    }
    Some(found)
}

/// The number in a variable of the file.
fn pointed(file: &Elf, name: &str, memory: &mut Memory) -> Option<u64> {
    let variable = file.symbol(name, memory)?;
    memory.word(variable).filter(|value| *value < 1 << 56)
}

/// A short text of C.
pub fn text(address: u64, memory: &mut Memory) -> Option<String> {
    let to_page_end = (4096 - address % 4096) as usize;
    let bytes = memory.bytes(address, LONGEST).or_else(|| memory.bytes(address, to_page_end.min(LONGEST)))?;
    let end = bytes.iter().position(|byte| *byte == 0)?;
    String::from_utf8(bytes[..end].to_vec()).ok()
}
