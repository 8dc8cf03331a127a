//! The kinds of markers that a profile has, and how the profiler's page shows them.

use fxprof_processed_profile::{
    CategoryHandle, MarkerFieldFlags, MarkerFieldFormat, MarkerLocations, Profile, StaticSchemaMarker,
    StaticSchemaMarkerField, StringHandle,
};

const fn text(key: &'static str, label: &'static str) -> StaticSchemaMarkerField {
    StaticSchemaMarkerField { key, label, format: MarkerFieldFormat::String, flags: MarkerFieldFlags::SEARCHABLE }
}

/// A stretch of a thread's life: running, waiting ...
pub(super) struct StateMarker {
    /// The group: a row of the marker chart.
    pub name: StringHandle,
    /// Which CPU, which lock, which reason.
    pub what: StringHandle,
    pub category: CategoryHandle,
}

impl StaticSchemaMarker for StateMarker {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "holdup-state";
    const DESCRIPTION: Option<&'static str> = Some("What the thread did for a while.");
    const LOCATIONS: MarkerLocations =
        MarkerLocations::MARKER_CHART.union(MarkerLocations::MARKER_TABLE).union(MarkerLocations::TIMELINE_OVERVIEW);
    const CHART_LABEL: Option<&'static str> = Some("{marker.data.what}");
    const TOOLTIP_LABEL: Option<&'static str> = Some("{marker.name}: {marker.data.what}");
    const TABLE_LABEL: Option<&'static str> = Some("{marker.data.what}");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[text("what", "What")];

    fn name(&self, _profile: &mut Profile) -> StringHandle {
        self.name
    }

    fn category(&self, _profile: &mut Profile) -> CategoryHandle {
        self.category
    }

    fn string_field_value(&self, _field_index: u32) -> StringHandle {
        self.what
    }

    fn number_field_value(&self, _field_index: u32) -> f64 {
        unreachable!("the schema has no number")
    }
}

/// The thread woke another, or was woken.
pub(super) struct WakeMarker {
    pub name: StringHandle,
    /// The other thread.
    pub other: StringHandle,
}

impl StaticSchemaMarker for WakeMarker {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "holdup-wake";
    const DESCRIPTION: Option<&'static str> = Some("One thread made another runnable.");
    const TOOLTIP_LABEL: Option<&'static str> = Some("{marker.name} {marker.data.thread}");
    const TABLE_LABEL: Option<&'static str> = Some("{marker.name} {marker.data.thread}");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[text("thread", "Thread")];

    fn name(&self, _profile: &mut Profile) -> StringHandle {
        self.name
    }

    fn category(&self, _profile: &mut Profile) -> CategoryHandle {
        CategoryHandle::OTHER
    }

    fn string_field_value(&self, _field_index: u32) -> StringHandle {
        self.other
    }

    fn number_field_value(&self, _field_index: u32) -> f64 {
        unreachable!("the schema has no number")
    }
}

/// A moment that a finding points at.
#[derive(Clone)]
pub(super) struct FindingMarker {
    /// Its kind.
    pub name: StringHandle,
    /// What it is about.
    pub about: StringHandle,
    pub category: CategoryHandle,
}

impl StaticSchemaMarker for FindingMarker {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "holdup-finding";
    const DESCRIPTION: Option<&'static str> = Some("A moment that a finding of holdup points at.");
    const LOCATIONS: MarkerLocations =
        MarkerLocations::MARKER_CHART.union(MarkerLocations::MARKER_TABLE).union(MarkerLocations::TIMELINE_OVERVIEW);
    const CHART_LABEL: Option<&'static str> = Some("{marker.data.about}");
    const TOOLTIP_LABEL: Option<&'static str> = Some("{marker.data.about}");
    const TABLE_LABEL: Option<&'static str> = Some("{marker.data.about}");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[text("about", "Finding")];

    fn name(&self, _profile: &mut Profile) -> StringHandle {
        self.name
    }

    fn category(&self, _profile: &mut Profile) -> CategoryHandle {
        self.category
    }

    fn string_field_value(&self, _field_index: u32) -> StringHandle {
        self.about
    }

    fn number_field_value(&self, _field_index: u32) -> f64 {
        unreachable!("the schema has no number")
    }
}
