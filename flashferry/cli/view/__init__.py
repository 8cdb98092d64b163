"""What results look like to a person: tables, the live view, figures in words."""
