"""Tables and figures. The only place that imports matplotlib."""
