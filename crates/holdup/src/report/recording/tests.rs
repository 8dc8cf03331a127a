//! Golden texts of the views.
