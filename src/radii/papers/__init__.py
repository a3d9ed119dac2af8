"""The papers' tables: reported numbers, matching runs, costs, making and rendering."""
