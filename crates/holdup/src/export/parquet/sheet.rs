//! One table in memory, by columns, and as the bytes of a Parquet file. Its columns are the fields of its rows: names
//! and order from what serde writes, types from the schema of that.

use std::io;
use std::sync::Arc;

use parquet::basic::{Compression, GzipLevel, LogicalType, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::Value;

use super::{TABLE_KEY, VERSION, VERSION_KEY};
use crate::results::fields;

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Sheet {
    /// Its name.
    pub name: &'static str,
    columns: Vec<Column>,
    rows: usize,
}

#[derive(Clone, Debug, PartialEq)]
struct Column {
    name: String,
    /// Whether a cell may be empty.
    optional: bool,
    cells: Cells,
}

/// The cells of a column, one for each row.
#[derive(Clone, Debug, PartialEq)]
enum Cells {
    Flag(Vec<Option<bool>>),
    /// Signed, for not all engines have numbers without a sign; what is larger is the largest.
    Integer(Vec<Option<i64>>),
    Real(Vec<Option<f64>>),
    Text(Vec<Option<String>>),
}

impl Sheet {
    /// The rows as columns.
    pub fn of<T: Serialize + JsonSchema + Default>(name: &'static str, rows: &[T]) -> Sheet {
        let schema = SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
        let order = fields(&T::default()).into_iter().map(|(name, _)| name);
        let mut columns: Vec<Column> = order.filter_map(|name| Column::new(name, schema.as_value())).collect();
        for row in rows {
            for (name, value) in fields(row) {
                columns.iter_mut().filter(|column| column.name == name).for_each(|column| column.cells.push(&value));
            }
        }
        Sheet { name, columns, rows: rows.len() }
    }

    /// Names of the columns, in order.
    pub fn header(&self) -> Vec<&str> {
        self.columns.iter().map(|column| column.name.as_str()).collect()
    }

    /// As a Parquet file.
    ///
    /// # Errors
    /// The writer of Parquet fails.
    pub fn to_parquet(&self) -> io::Result<Vec<u8>> {
        self.write().map_err(|why| io::Error::other(why.to_string()))
    }

    fn write(&self) -> Result<Vec<u8>, ParquetError> {
        let types = self.columns.iter().map(|column| column.parquet_type().map(Arc::new));
        let schema = Type::group_type_builder(self.name).with_fields(types.collect::<Result<_, _>>()?).build()?;
        let marks = [(TABLE_KEY, self.name.to_owned()), (VERSION_KEY, VERSION.to_string())];
        let properties = WriterProperties::builder()
            .set_compression(Compression::GZIP(GzipLevel::default()))
            // For a few rows, indices of pages would take more room than the pages.
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .set_created_by(concat!("holdup ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_key_value_metadata(Some(marks.map(|(key, value)| KeyValue::new(key.to_owned(), value)).to_vec()))
            .build();
        let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
        if self.rows > 0 {
            let mut group = writer.next_row_group()?;
            for column in &self.columns {
                column.write(&mut group)?;
            }
            group.close()?;
        }
        writer.into_inner()
    }
}

impl Column {
    /// A field that is neither text, number nor flag has no column.
    fn new(name: String, schema: &Value) -> Option<Column> {
        let kind = &schema["properties"][name.as_str()]["type"];
        let kinds: Vec<&str> = match kind {
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
            kind => kind.as_str().into_iter().collect(),
        };
        let cells = match *kinds.iter().find(|kind| **kind != "null")? {
            "boolean" => Cells::Flag(Vec::new()),
            "integer" => Cells::Integer(Vec::new()),
            "number" => Cells::Real(Vec::new()),
            "string" => Cells::Text(Vec::new()),
            _ => return None,
        };
        Some(Column { name, optional: kinds.contains(&"null"), cells })
    }

    fn parquet_type(&self) -> Result<Type, ParquetError> {
        let (physical, logical) = match self.cells {
            Cells::Flag(_) => (Physical::BOOLEAN, None),
            Cells::Integer(_) => (Physical::INT64, None),
            Cells::Real(_) => (Physical::DOUBLE, None),
            Cells::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let repetition = if self.optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        Type::primitive_type_builder(&self.name, physical)
            .with_repetition(repetition)
            .with_logical_type(logical)
            .build()
    }

    fn write(&self, group: &mut SerializedRowGroupWriter<'_, Vec<u8>>) -> Result<(), ParquetError> {
        let missing = || ParquetError::General(format!("no place for the column {}", self.name));
        let mut column = group.next_column()?.ok_or_else(missing)?;
        let levels = self.levels();
        let levels = levels.as_deref();
        let written = match (&self.cells, column.untyped()) {
            (Cells::Flag(cells), ColumnWriter::BoolColumnWriter(writer)) => {
                writer.write_batch(&filled(cells, |flag| *flag), levels, None)
            }
            (Cells::Integer(cells), ColumnWriter::Int64ColumnWriter(writer)) => {
                writer.write_batch(&filled(cells, |number| *number), levels, None)
            }
            (Cells::Real(cells), ColumnWriter::DoubleColumnWriter(writer)) => {
                writer.write_batch(&filled(cells, |number| *number), levels, None)
            }
            (Cells::Text(cells), ColumnWriter::ByteArrayColumnWriter(writer)) => {
                writer.write_batch(&filled(cells, |text| ByteArray::from(text.as_str())), levels, None)
            }
            _ => return Err(missing()),
        };
        written?;
        column.close()
    }

    /// Of a column that may have empty cells, 1 for each that is not.
    fn levels(&self) -> Option<Vec<i16>> {
        fn of<T>(cells: &[Option<T>]) -> Vec<i16> {
            cells.iter().map(|cell| i16::from(cell.is_some())).collect()
        }
        self.optional.then(|| match &self.cells {
            Cells::Flag(cells) => of(cells),
            Cells::Integer(cells) => of(cells),
            Cells::Real(cells) => of(cells),
            Cells::Text(cells) => of(cells),
        })
    }
}

fn filled<T, R>(cells: &[Option<T>], convert: impl FnMut(&T) -> R) -> Vec<R> {
    cells.iter().flatten().map(convert).collect()
}

impl Cells {
    fn push(&mut self, value: &Value) {
        let whole = || value.as_i64().or(value.as_u64().map(|_| i64::MAX));
        match self {
            Cells::Flag(cells) => cells.push(value.as_bool()),
            Cells::Integer(cells) => cells.push(whole()),
            Cells::Real(cells) => cells.push(value.as_f64()),
            Cells::Text(cells) => cells.push(value.as_str().map(str::to_owned)),
        }
    }
}
